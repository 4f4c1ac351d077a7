"""Tensors that are explained by their role and never executed: towers, projectors, drafts that we
cannot build, lookup tables nobody reads."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from day0.checkpoint.headers import TensorHeader
from day0.checkpoint.source import Checkpoint
from day0.ir.fact import Finding
from day0.ir.graph import Group, Model
from day0.ir.weight import Leaf, picks
from day0.mechanisms import mtp
from day0.mechanisms.names import Names
from day0.models import drafts
from day0.models.decoder import Reading
from day0.models.places import ASIDE, Places
from day0.models.stored import companion_of, logical_dims
from day0.models.stored_look import Stored

# Role by the word that names the module; other words of places.ASIDE are vision towers' parts.
_ROLES = {
    "mtp": ("mtp", "mtp_layers", "mtp_dspark"),
    "audio": ("audio_tower", "audio_model", "audio_encoder", "audio", "talker", "code2wav",
              "embed_audio"),
    "projector": ("multi_modal_projector", "mm_projector", "patch_merger", "patch_merge_mlp",
                  "aligner", "vision_language_adapter", "pre_mm_projector_norm", "connector"),
    "lookup": ("engram", "engram_table", "ngram_table"),
}  # fmt: skip
ROLE = {word: role for role, names in _ROLES.items() for word in names}
# A draft that leaves more tensors unexplained than this is of a kind we do not know.
STRAY = 2


def groups_of(
    model: Model, checkpoint: Checkpoint, reading: Reading
) -> tuple[Model, list[Finding]]:
    """The model with its groups, and what was noticed on the way. A draft whose tensors its graph
    does not explain gives way to a group."""
    if checkpoint.headers is None:
        return model, []
    names, tensors = reading.names, checkpoint.headers.tensors
    claimed = _claimed(model)
    whole = _without_opaque_drafts(model, names, claimed)
    if whole is not model:
        model, claimed = whole, _claimed(whole)
    sites: dict[str, str] = {}
    for prefix, word in _modules(names, reading.places):
        sites[prefix] = ROLE.get(word, "vision")
    for prefix in _tail_drafts(names, reading.places, model.spec.shape.num_layers):
        sites[prefix] = "mtp"
    built = [draft.spec.site for draft in model.spec.drafts]
    found, findings = [], []
    for prefix, role in sites.items():
        inside = names.below(f"{prefix}.") or names.below(prefix)
        if role == "mtp" and any(site.prefix.startswith(f"{prefix}.") for site in built):
            continue  # what its graph leaves over is unexpected, not opaque
        left = [name for name in inside if name not in claimed]
        if not left:
            continue
        group = Group(
            name=prefix,
            role=role,
            tensors=tuple(left),
            params=sum(_logical(names, tensors, left)),
            bytes=sum(tensors[name].bytes for name in left),
        )
        found.append(group)
        if role == "mtp":
            findings.append(_opaque(group))
    return replace(model, groups=tuple(found)), findings


def unclaimed(model: Model, tensors: Iterable[str]) -> tuple[str, ...]:
    """Those of a checkpoint's tensors that neither a weight nor a group takes."""
    taken = _claimed(model).union(*(group.tensors for group in model.groups))
    return tuple(name for name in tensors if name not in taken)


def _claimed(model: Model) -> set[str]:
    """Stored names that some weight takes."""
    claimed: set[str] = set()
    for weight in model.weights.values():
        for expr in (weight.source, *weight.padding):
            for leaf, count, _ in picks(expr):
                claimed.update(_stored_names(leaf, count))
    return claimed


def _stored_names(leaf: Leaf, count: int) -> Iterable[str]:
    templates = [name for _, name in leaf.parts] or [leaf.name]
    for template in templates:
        if not count:
            yield template
            continue
        before, _, after = template.partition("{e}")
        for expert in range(count):
            yield f"{before}{expert}{after}"


def _without_opaque_drafts(model: Model, names: Names, claimed: set[str]) -> Model:
    """Drafts explain themselves whole, or not at all: the graphs share names by their numbers."""
    parts = model.spec.drafts
    prefixes = {part.spec.site.prefix for part in parts}
    left = sum(name not in claimed for prefix in prefixes for name in names.below(prefix))
    if not parts or left <= STRAY:
        return model
    graphs = {name: graph for name, graph in model.graphs.items() if name == "main"}
    used = {use.cache for op in graphs["main"].ops for use in op.caches}
    return replace(
        model,
        spec=replace(model.spec, drafts=()),
        graphs=graphs,
        weights={n: w for n, w in model.weights.items() if not n.startswith("mtp.")},
        caches={n: c for n, c in model.caches.items() if n in used},
    )


def _modules(names: Names, places: Places) -> Iterable[tuple[str, str]]:
    """(path, word) of modules beside the trunk whose word says what they are: looked for among
    the trunk's ancestors and one level below them ("thinker.visual", "model.vision_tower")."""
    for root in places.roots:
        for child in names.children(root):
            if child in ASIDE or child in ROLE:
                yield root + child, child
            elif not f"{places.prefix}{places.stem}.".startswith(f"{root}{child}."):
                for below in names.children(f"{root}{child}."):
                    if below in ASIDE:
                        yield f"{root}{child}.{below}", below


def _tail_drafts(names: Names, places: Places, num_layers: int) -> Iterable[str]:
    """Layers beyond the trunk's that carry a draft's join or norms."""
    for index in range(num_layers, places.num_layers):
        site = drafts.tail(places, num_layers, index)
        if mtp.traces(site.at(names)):
            yield site.prefix.removesuffix(".")


def _logical(
    names: Names, tensors: Mapping[str, TensorHeader], inside: Iterable[str]
) -> Iterable[int]:
    """Elements of each weight: unpacked, scales and zero points not counted."""
    for name in inside:
        stem = name
        for ending in ("_packed", "_blocks"):
            stem = stem.removesuffix(ending)
        if stem.endswith(".qweight"):
            stem = f"{stem.removesuffix('.qweight')}.weight"
        elif companion_of(name, tensors):
            continue
        leaf = names.leaf(stem, tensors[name].shape)
        dims = logical_dims(Stored(format=leaf.format, parts=leaf.parts), tensors)
        yield math.prod(tensors[name].shape if dims is None else dims)


def _opaque(group: Group) -> Finding:
    return Finding(
        code="mtp_opaque",
        severity="info",
        message=f"the draft at {group.name} is of a form no mechanism knows: {len(group.tensors)} "
        f"tensors, {group.params:,} parameters, counted and never run",
        evidence=(group.name,),
    )
