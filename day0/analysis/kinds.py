"""Ops of the main graph grouped by what they are and how they are cut, with the layers they stand
in: what costs and plans are computed over, a few dozen kinds instead of thousands of ops."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from day0.analysis.inventory import Entry
from day0.ir.cache import CacheSpec
from day0.ir.graph import Graph, Model
from day0.ir.op import Op
from day0.ir.recipe import Recipe
from day0.ir.tensor import TensorSpec
from day0.registry.family import Shapes
from day0.registry.index import family
from day0.registry.placement import Placement, place
from day0.registry.shapes import shapes_of
from day0.registry.split import expert_way
from day0.registry.ways import Cut, Way


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Equal ops, cut alike. `op` is the first of them, `ops` all their ids; `layers` the place of
    each (those before the first layer count to it, those behind the last to that), rising;
    `stored`: its shapes with weights in the checkpoint's formats. `alone`: weight slot -> places,
    rising, of weights that ops of one layer use; `shared`: for weights of several layers all of
    these, listed at their first user."""

    op: Op
    ops: tuple[str, ...]
    shapes: Shapes
    stored: Shapes
    way: Way | None
    expert: Way | None
    layers: tuple[int, ...]
    alone: Mapping[str, tuple[int, ...]]
    shared: Mapping[str, tuple[frozenset[int], ...]]

    def weights(self, slot: str, first: int, end: int) -> int:
        """How many weights of this slot those layers have to hold."""
        several = sum(any(first <= place < end for place in places) for places in self.shared[slot])
        return within(self.alone[slot], first, end) + several


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Equal caches, cut alike, and the layers that own them, rising."""

    spec: CacheSpec
    cut: Cut | None
    layers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """All of a model's main graph. `places`: op id -> layer."""

    kinds: tuple[Kind, ...]
    held: tuple[Held, ...]
    placement: Placement
    places: Mapping[str, int]
    num_layers: int


def kinds_of(model: Model, recipe: Recipe, entries: tuple[Entry, ...]) -> Kinds:
    """Grouped by inventory entry, way and the formats that the recipe gives to their roles."""
    graph = model.graphs["main"]
    entry_of = {name: number for number, entry in enumerate(entries) for name in entry.ops}
    placement = place(graph, lambda op: entries[entry_of[op.id]].shapes)
    num_layers = max(len(model.spec.layers), 1)
    places = _places(graph, num_layers)
    grouped: dict[tuple[int, Way | None, tuple[str, ...]], list[Op]] = defaultdict(list)
    for op in graph.ops:
        run = tuple(recipe.weight(model.weights[name]) for _, name in op.weights)
        run += tuple(recipe.cache(model.caches[use.cache]) for use in op.caches)
        grouped[entry_of[op.id], placement.ways.get(op.id), run].append(op)
    users: dict[str, dict[int, None]] = {}
    first_user: dict[str, str] = {}
    for op in graph.ops:
        for _, name in op.weights:
            if model.weights[name].home == "device":
                users.setdefault(name, {})[places[op.id]] = None
                first_user.setdefault(name, op.id)
    kinds = []
    for (_, way, _), ops in grouped.items():
        shapes = shapes_of(ops[0], graph, model, recipe)
        alone: dict[str, list[int]] = {slot: [] for slot, _ in ops[0].weights}
        shared: dict[str, list[frozenset[int]]] = {slot: [] for slot, _ in ops[0].weights}
        for op in ops:
            for slot, name in op.weights:
                if first_user.get(name) != op.id:
                    continue
                found = users[name]
                if len(found) == 1:
                    alone[slot].append(*found)
                else:
                    shared[slot].append(frozenset(found))
        kinds.append(
            Kind(
                op=ops[0],
                ops=tuple(op.id for op in ops),
                shapes=shapes,
                stored=replace(
                    shapes,
                    weights={slot: model.weights[name].spec for slot, name in ops[0].weights},
                ),
                way=way,
                expert=expert_way(family(ops[0].family), shapes),
                layers=tuple(sorted(places[op.id] for op in ops)),
                alone={slot: tuple(sorted(found)) for slot, found in alone.items()},
                shared={slot: tuple(found) for slot, found in shared.items()},
            )
        )
    held = _held(graph, model, placement, places)
    return Kinds(
        kinds=tuple(kinds), held=held, placement=placement, places=places, num_layers=num_layers
    )


def _stored(op: Op, model: Model) -> dict[str, TensorSpec]:
    return {slot: model.weights[name].spec for slot, name in op.weights}


def within(layers: tuple[int, ...], first: int, end: int) -> int:
    """How many of these rising numbers are at least `first` and below `end`."""
    return bisect_left(layers, end) - bisect_left(layers, first)


def shapes_in(stored: bool) -> Callable[[Kind], Shapes]:
    """The shapes of a kind in the checkpoint's formats, or in the recipe's."""
    return (lambda kind: kind.stored) if stored else (lambda kind: kind.shapes)


def _places(graph: Graph, num_layers: int) -> dict[str, int]:
    """Op id -> layer; what comes before the first layer counts to it, what follows to the last."""
    places = {}
    begun = False
    for op in graph.ops:
        begun = begun or op.layer >= 0
        outside = num_layers - 1 if begun else 0
        places[op.id] = op.layer if op.layer >= 0 else outside
    return places


def _held(
    graph: Graph, model: Model, placement: Placement, places: Mapping[str, int]
) -> tuple[Held, ...]:
    cuts: dict[str, Cut] = {}
    owner: dict[str, int] = {}
    for op in graph.ops:
        way = placement.ways.get(op.id)
        slots = {slot: cut for cut in (way.cuts if way else ()) for slot, _ in cut.caches}
        for use in op.caches:
            owner.setdefault(use.cache, places[op.id])
            if use.slot in slots:
                cuts[use.cache] = slots[use.slot]
    grouped: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for name in owner:
        spec = model.caches[name]
        key = spec.parts, spec.growth, spec.every, spec.span, spec.role, spec.slotted, spec.align
        grouped[*key, cuts.get(name)].append(name)
    return tuple(
        Held(
            spec=model.caches[names[0]],
            cut=cuts.get(names[0]),
            layers=tuple(sorted(owner[name] for name in names)),
        )
        for names in grouped.values()
    )
