"""Which implementation runs each op: asked of the registry once, printed as a table."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from day0.ir import format as formats
from day0.ir.graph import Graph, Model
from day0.ir.op import Op
from day0.passes.state import Held
from day0.registry.family import Impl, Shapes
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
# What ranks send one another, by torch.distributed on every backend.
COLLECTIVES = ("all_gather", "all_reduce", "combine", "dispatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`entry` "module:function" ("" when nothing runs it), `backend` its kind, `why_not` the
    reasons of the better ones. `formats`: what its matrices and caches run in, each once; of
    emulated ones it says so."""

    family: str
    backend: str
    entry: str
    why_not: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()


def choose(
    graph: Graph, model: Model, target: "Target", phase: str, held: Held
) -> dict[str, Choice]:
    """A Choice for every op of the graph, by op id. `held`: what is held as codes and scales."""
    made: dict[tuple[object, ...], Choice] = {}
    result = {}
    for op in graph.ops:
        shapes = shapes_of(op, graph, model, target.recipe)
        emulated = _emulated(op, shapes, held)
        key = (op.family, op.attrs, tuple(shapes.weights.items()), tuple(shapes.caches.items()),
               emulated)  # fmt: skip
        if key not in made:
            found = _one(op, shapes, target, phase, emulated)
            made[key] = replace(found, formats=_formats(shapes, emulated))
        result[op.id] = made[key]
    return result


def _one(op: Op, shapes: Shapes, target: "Target", phase: str, emulated: tuple[str, ...]) -> Choice:
    """The first optimised implementation that refuses nothing, else the definition."""
    built_in = BUILT_IN.get(op.family)
    if built_in:
        return Choice(family=op.family, backend="reference", entry=built_in)
    if op.family in COLLECTIVES:
        (impl,) = family(op.family).impls
        return Choice(family=op.family, backend=impl.backend, entry=impl.entry)
    why_not: list[str] = []
    if target.backend == "auto" and target.capability is not None:
        for impl in _candidates(op, phase):
            reasons = (
                *refusals(impl, shapes, target.capability),
                *_unnamed(impl, shapes),
                # the runtime holds these in wide buffers, which only definitions read
                *(f"{slot} is emulated" for slot in emulated),
            )
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


def _candidates(op: Op, phase: str) -> list[Impl]:
    """Optimised implementations for the phase, the first ones first. Verify steps have several rows
    of a sequence, as prompts have, and few, as decode: without an implementation of their own they
    take one for both, then one for prompts. What keeps a state takes one for decode, which the
    runtime feeds token by token."""
    impls = [impl for impl in family(op.family).impls if impl.optimised]
    own = [impl for impl in impls if phase in impl.phases]
    if phase != "verify":
        return own
    if any(use.mode == "rw" for use in op.caches):
        return own or [impl for impl in impls if "decode" in impl.phases]
    others = [impl for impl in impls if impl not in own and "prefill" in impl.phases]
    return [*own, *sorted(others, key=lambda impl: "decode" not in impl.phases)]


def _narrow(shapes: Shapes) -> dict[str, str]:
    """Quantised formats by weight or cache slot."""
    specs = [*shapes.weights.items()]
    specs += [(slot, spec) for slot, parts in shapes.caches.items() for spec in parts]
    return {slot: spec.format for slot, spec in specs if formats.get(spec.format).quantised}


def _emulated(op: Op, shapes: Shapes, held: Held) -> tuple[str, ...]:
    """Slots whose values are rounded to their narrow format and held in a wide one."""
    kept = {slot for slot, name in op.weights if name in held.weights}
    kept |= {use.slot for use in op.caches if use.cache in held.caches}
    return tuple(slot for slot in _narrow(shapes) if slot not in kept)


def _unnamed(impl: Impl, shapes: Shapes) -> tuple[str, ...]:
    """Codes are nothing for an implementation that does not say that it takes them."""
    return tuple(
        f"{slot} in {name} (takes plain formats)"
        for slot, name in _narrow(shapes).items()
        if slot not in impl.formats
    )


def _formats(shapes: Shapes, emulated: tuple[str, ...]) -> tuple[str, ...]:
    """Of matrices and cache entries; vectors (norms, biases) say little."""
    found = [(slot, spec) for slot, spec in shapes.weights.items() if len(spec.dims) > 1]
    found += [(slot, spec) for slot, parts in shapes.caches.items() for spec in parts]
    names = (
        f"{spec.format} emulated"
        if slot in emulated and formats.get(spec.format).quantised
        else spec.format
        for slot, spec in found
    )
    return tuple(dict.fromkeys(names))
