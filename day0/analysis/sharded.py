"""A model under one mesh: what a rank holds, and the collectives that its graph has, with bytes.

The graph is the very one that a rank runs (`passes/shard.py`); bytes are those that a rank sends,
by the formula of each collective's family.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from day0.analysis.lowering import lowered_for
from day0.ir.graph import Model
from day0.ir.recipe import Recipe
from day0.ir.rows import LAST
from day0.parallel.mesh import Mesh
from day0.passes.lower import Lowered
from day0.passes.shard import Place
from day0.registry.cost import stored_bytes
from day0.registry.index import family

GROWING = ("per-token", "pooled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Equal collectives of a phase. `ops` of them in the whole graph, in `layers` layers; all of
    them together send `token_bytes` for a token of the step and `sequence_bytes` for a sequence."""

    phase: str
    collective: str
    axis: str
    ranks: int
    ops: int
    layers: int
    token_bytes: float
    sequence_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Bytes of a rank in the recipe's formats; `whole`: of a model that is not split.
    `token_bytes`: of growing caches for a token of a sequence."""

    weights: int
    whole_weights: int
    token_bytes: float
    whole_token_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharded:
    """`held` of the rank with the most weights; `sent` by phase and collective."""

    mesh: Mesh
    held: Held
    sent: tuple[Sent, ...]


def sharded(model: Model, recipe: Recipe, capability: tuple[int, int], mesh: Mesh) -> Sharded:
    """DoesNotFit (exit 3) with the reasons where the mesh is an illegal split."""
    whole = lowered_for(model, recipe, capability)["prefill"]
    # shares differ by one unit at most: the last rank's are the largest, the first has the biases
    ends = [
        lowered_for(model, recipe, capability, Place(mesh=mesh, rank=rank))
        for rank in dict.fromkeys((0, mesh.size - 1))
    ]
    most = max(_weights(low["prefill"], recipe) for low in ends)
    return Sharded(
        mesh=mesh,
        held=Held(
            weights=most,
            whole_weights=_weights(whole, recipe),
            token_bytes=_caches(ends[0]["prefill"], recipe),
            whole_token_bytes=_caches(whole, recipe),
        ),
        sent=tuple(one for low in ends[0].values() for one in _sent(low, recipe)),
    )


def _sent(low: Lowered, recipe: Recipe) -> list[Sent]:
    found: dict[tuple[str, str, int], list[tuple[int, float, float]]] = defaultdict(list)
    for op in low.graph.ops:
        sends = family(op.family).sends
        if sends is None:
            continue
        shapes = low.shapes(op, recipe)
        size, last = sends(shapes), shapes.lead == LAST.name
        key = op.family, op.attr("axis"), op.attr("ranks")
        found[key].append((op.layer, 0.0 if last else size, size if last else 0.0))
    return [
        Sent(
            phase=low.phase,
            collective=name,
            axis=axis,
            ranks=ranks,
            ops=len(ops),
            layers=len({layer for layer, _, _ in ops if layer >= 0}),
            token_bytes=sum(size for _, size, _ in ops),
            sequence_bytes=sum(size for _, _, size in ops),
        )
        for (name, axis, ranks), ops in found.items()
    ]


def _weights(low: Lowered, recipe: Recipe) -> int:
    used = {name: low.weights[name] for op in low.graph.ops for _, name in op.weights}
    return sum(
        stored_bytes(recipe.weight(weight), weight.spec.dims)
        for weight in used.values()
        if weight.home == "device"
    )


def _caches(low: Lowered, recipe: Recipe) -> float:
    return sum(
        stored_bytes(recipe.part(cache, part), spec.dims) / cache.every
        for cache in low.caches.values()
        if cache.growth in GROWING
        for part, spec in cache.parts
    )


def as_json(found: Sharded) -> Mapping[str, Any]:
    """For the JSON of `analyze --mesh`."""
    return {
        "mesh": found.mesh.name,
        "ranks": found.mesh.size,
        "held": {name: getattr(found.held, name) for name in Held.__slots__},
        "sent": [{name: getattr(one, name) for name in Sent.__slots__} for one in found.sent],
    }
