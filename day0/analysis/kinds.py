"""Ops of the main graph grouped by what they are and how they are cut, with the layers they stand
in: what costs and plans are computed over, a few dozen kinds instead of thousands of ops."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from day0.analysis.inventory import Entry
from day0.ir.cache import CacheSpec
from day0.ir.graph import Graph, Model
from day0.ir.op import Op
from day0.ir.recipe import Recipe
from day0.registry.family import Shapes
from day0.registry.index import family
from day0.registry.placement import Placement, place
from day0.registry.shapes import shapes_of
from day0.registry.split import expert_way
from day0.registry.ways import Cut, Way


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Equal ops, cut alike. `op` is the first of them; `layers` the place of each (those before the
    first layer count to it, those behind the last to that); `fresh`: weight slot -> places of the
    ops that are the first to use theirs, for shared weights have their bytes once."""

    op: Op
    entry: Entry
    shapes: Shapes
    way: Way | None
    expert: Way | None
    layers: tuple[int, ...]
    fresh: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Equal caches, cut alike, and the layers that own them."""

    spec: CacheSpec
    cut: Cut | None
    layers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """All of a model's main graph."""

    kinds: tuple[Kind, ...]
    held: tuple[Held, ...]
    placement: Placement
    places: Mapping[str, int]


def kinds_of(model: Model, recipe: Recipe, entries: tuple[Entry, ...]) -> Kinds:
    """Grouped by inventory entry and way."""
    graph = model.graphs["main"]
    entry_of = {name: number for number, entry in enumerate(entries) for name in entry.ops}
    placement = place(graph, lambda op: entries[entry_of[op.id]].shapes)
    places = _places(graph, len(model.spec.layers))
    grouped: dict[tuple[int, Way | None], list[Op]] = defaultdict(list)
    for op in graph.ops:
        grouped[entry_of[op.id], placement.ways.get(op.id)].append(op)
    seen: set[str] = set()
    fresh: dict[str, set[str]] = {}
    for op in graph.ops:
        fresh[op.id] = {slot for slot, name in op.weights if name not in seen}
        seen |= {name for _, name in op.weights}
    kinds = []
    for (number, way), ops in grouped.items():
        shapes = shapes_of(ops[0], graph, model, recipe)
        kinds.append(
            Kind(
                op=ops[0],
                entry=entries[number],
                shapes=shapes,
                way=way,
                expert=expert_way(family(ops[0].family), shapes),
                layers=tuple(sorted(places[op.id] for op in ops)),
                fresh={
                    slot: tuple(sorted(places[op.id] for op in ops if slot in fresh[op.id]))
                    for slot, _ in ops[0].weights
                },
            )
        )
    held = _held(graph, model, placement, places)
    return Kinds(kinds=tuple(kinds), held=held, placement=placement, places=places)


def _places(graph: Graph, num_layers: int) -> dict[str, int]:
    """Op id -> layer; what comes before the first layer counts to it, what follows to the last."""
    places = {}
    begun = False
    for op in graph.ops:
        begun = begun or op.layer >= 0
        outside = max(num_layers - 1, 0) if begun else 0
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
