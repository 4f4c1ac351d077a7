"""Which implementation runs each op: asked of the registry once, printed as a table."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from day0.ir import format as formats
from day0.ir.graph import Graph, Model
from day0.ir.op import Op
from day0.registry.family import Shapes
from day0.registry.index import family
from day0.registry.judge import refusals
from day0.registry.shapes import shapes_of

if TYPE_CHECKING:
    from day0.passes.lower import Target

# Addressing that the runtime does itself on every backend.
BUILT_IN = {
    "cache_write": "day0.runtime.binder:cache_write",
    "take_rows": "day0.runtime.binder:take_rows",
}


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
        shapes = shapes_of(op, graph, model, target.recipe)
        key = op.family, op.attrs, tuple(shapes.weights.items()), tuple(shapes.caches.items())
        if key not in made:
            made[key] = _one(op, shapes, target, phase)
        result[op.id] = made[key]
    return result


def _one(op: Op, shapes: Shapes, target: "Target", phase: str) -> Choice:
    """The first optimised implementation that refuses nothing, else the definition."""
    built_in = BUILT_IN.get(op.family)
    if built_in:
        return Choice(family=op.family, backend="reference", entry=built_in)
    why_not: list[str] = []
    if target.backend == "auto" and target.capability is not None:
        for impl in family(op.family).impls:
            if not impl.optimised or phase not in impl.phases:
                continue
            reasons = (*refusals(impl, shapes, target.capability), *_emulated(shapes))
            if not reasons:
                return Choice(family=op.family, backend=impl.backend, entry=impl.entry)
            why_not += (f"{impl.entry}: {reason}" for reason in reasons)
    entry = target.references.get(op.family, "")
    return Choice(
        family=op.family,
        backend="reference" if entry else "",
        entry=entry,
        why_not=tuple(why_not),
    )


def _emulated(shapes: Shapes) -> tuple[str, ...]:
    """Slots whose narrow format the runtime holds in wide buffers, which only definitions read."""
    specs = [*shapes.weights.items()]
    specs += [(slot, spec) for slot, parts in shapes.caches.items() for spec in parts]
    narrow = {slot: spec.format for slot, spec in specs if formats.get(spec.format).quantised}
    return tuple(f"{slot} in {name} is emulated" for slot, name in narrow.items())
