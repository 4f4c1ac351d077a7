"""The lowered graphs of a model for the GPU that is planned for, without torch."""

from collections.abc import Mapping
from typing import Any

from day0.ir.graph import Model
from day0.ir.recipe import Recipe
from day0.passes.choose import BUILT_IN, Choice
from day0.passes.lower import PHASES, Lowered, Target, lower
from day0.passes.shard import SHARDING, Place
from day0.registry.index import family


def lowered_for(
    model: Model, recipe: Recipe, capability: tuple[int, int], place: Place | None = None
) -> dict[str, Lowered]:
    """By phase, for a GPU of the `capability`, or for the one in this `place` of a mesh. Where no
    kernel takes an op its definition stands; an operator without either stays in the graph with no
    implementation."""
    names = {op.family for op in model.graphs["main"].ops} | SHARDING
    references = {
        name: impl.entry
        for name in names
        for impl in family(name).impls
        if impl.backend == "reference"
    }
    target = Target(
        backend="auto",
        recipe=recipe,
        references=references,
        capability=capability,
        complete=False,
        place=place or Place(),
    )
    return lower(model, target)


def passes(lowered: Mapping[str, Lowered]) -> list[dict[str, Any]]:
    """What every pass matched in every phase: {"pass", "phase", "count", "ops"}. `ops` are ids of
    what it changed or made; of `quantize` the weights and caches that run in another format than
    they are stored in, of `choose` what no kernel takes, of `streams` the ops of the second
    lane."""
    rows = []
    for phase in PHASES:
        low = lowered[phase]
        found = {name: ids for name, ids in low.changed.items() if name != "streams"}
        found["quantize"] = tuple(row.name for row in low.precision.rows if row.action != "keep")
        found["choose"] = tuple(name for name, choice in low.choices.items() if not _taken(choice))
        found["streams"] = low.changed.get("streams", ())
        rows += (
            {"pass": name, "phase": phase, "count": len(ids), "ops": list(ids)}
            for name, ids in found.items()
        )
    return rows


def _taken(choice: Choice) -> bool:
    """By a kernel, a library, or the runtime's own addressing."""
    return choice.backend in ("triton", "library") or choice.family in BUILT_IN
