"""Tensors that are explained by their role and never executed: towers, projectors, unused drafts."""

from collections import defaultdict
from dataclasses import replace

from day0.checkpoint.source import Checkpoint
from day0.ir.fact import Finding
from day0.ir.graph import Group, Model
from day0.ir.weight import picks
from day0.models.decoder import Reading
from day0.models.places import ASIDE

_DRAFTS = ("mtp", "mtp_layers", "mtp_dspark")


def groups_of(
    model: Model, checkpoint: Checkpoint, reading: Reading
) -> tuple[Model, list[Finding]]:
    """The model with its groups, and what was noticed on the way."""
    if checkpoint.headers is None:
        return model, []
    tensors = checkpoint.headers.tensors
    claimed = {
        name
        for weight in model.weights.values()
        for expr in (weight.source, *weight.padding)
        for leaf, _, _ in picks(expr)
        for name in ((part for _, part in leaf.parts) if leaf.parts else (leaf.name,))
    }
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in tensors:
        if name in claimed:
            continue
        words = [part for part in name.split(".") if part in ASIDE]
        if words:
            role = "mtp" if words[0] in _DRAFTS else "tower"
            found[words[0], role].append(name)
    groups = tuple(
        Group(
            name=word,
            role=role,
            tensors=tuple(names),
            params=sum(tensors[name].elements for name in names),
            bytes=sum(tensors[name].bytes for name in names),
        )
        for (word, role), names in found.items()
    )
    return replace(model, groups=groups), []
