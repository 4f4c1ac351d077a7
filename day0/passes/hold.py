"""Which quantised weights and caches are held as codes and scales, and which are emulated.

A weight is held in its narrow format where an optimised implementation of every op that reads it,
in every phase, takes that format; a definition reads values in a wide format, so that one op
without a kernel makes all its weights emulated. Entries of a cache are held narrow where the kernel
that writes entries knows the format: whoever wants contiguous history gets it dequantised.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from day0.ir import format as formats
from day0.ir.graph import Model
from day0.passes.choose import choose
from day0.passes.state import Held, State
from day0.registry.index import family

if TYPE_CHECKING:
    from day0.passes.lower import Target


def hold(states: Mapping[str, State], model: Model, target: "Target") -> Held:
    """For the graphs of all phases, by phase: nothing on the definitions alone."""
    if target.backend != "auto" or target.capability is None:
        return Held()
    held = Held(weights=_weights(states, target), caches=_caches(states, target))
    while True:
        lost: set[str] = set()
        for phase, state in states.items():
            own = replace(model, weights=state.weights, caches=state.caches)
            choices = choose(state.graph, own, target, phase, held)
            for op in state.graph.ops:
                if choices[op.id].backend == "reference":
                    lost |= {name for _, name in op.weights} & held.weights
        if not lost:
            return held
        held = replace(held, weights=held.weights - lost)


def _weights(states: Mapping[str, State], target: "Target") -> frozenset[str]:
    return frozenset(
        name
        for state in states.values()
        for op in state.graph.ops
        for _, name in op.weights
        if formats.get(target.recipe.weight(state.weights[name])).quantised
    )


def _caches(states: Mapping[str, State], target: "Target") -> frozenset[str]:
    """Caches in pages: slots hold tails of raw inputs and states, which are no entries."""
    written = {
        name for impl in family("cache_write").impls for name in impl.formats.get("cache", ())
    }
    found = set()
    for state in states.values():
        for use in (use for op in state.graph.ops for use in op.caches):
            cache = state.caches[use.cache]
            form = target.recipe.cache(cache)
            in_pages = cache.growth != "per-sequence" and not cache.slotted
            if in_pages and formats.get(form).quantised and form in written:
                found.add(use.cache)
    return frozenset(found)
