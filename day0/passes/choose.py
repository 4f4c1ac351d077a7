"""Which implementation runs each op: asked of the registry once, printed as a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from day0.ir.graph import Graph, Model
from day0.ir.op import Op

if TYPE_CHECKING:
    from day0.passes.lower import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`entry` "module:function" ("" when nothing runs it), `backend` its kind, `why_not` the
    reasons of the better ones."""

    family: str
    backend: str
    entry: str
    why_not: tuple[str, ...] = ()


def choose(graph: Graph, model: Model, target: "Target", phase: str) -> dict[str, Choice]:
    """A Choice for every op of the graph, by op id."""
    made: dict[tuple[object, ...], Choice] = {}
    result = {}
    for op in graph.ops:
        key = _key(op, model)
        if key not in made:
            made[key] = _one(op, target.references)
        result[op.id] = made[key]
    return result


def _key(op: Op, model: Model) -> tuple[object, ...]:
    return op.family, op.attrs, tuple((slot, model.weights[name].spec) for slot, name in op.weights)


# Addressing that the runtime does itself on every backend.
BUILT_IN = {
    "cache_write": "day0.runtime.binder:cache_write",
    "take_rows": "day0.runtime.binder:take_rows",
}


def _one(op: Op, references: Mapping[str, str]) -> Choice:
    entry = BUILT_IN.get(op.family) or references.get(op.family, "")
    return Choice(family=op.family, backend="reference" if entry else "", entry=entry)
