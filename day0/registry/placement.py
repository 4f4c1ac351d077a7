"""Which way every op of a graph is cut on the tensor-parallel axis, and the collectives it costs.

Two walks. Backwards: what a value's users would take, split in some units or whole, and with it the
way of each op. Forwards: where a value really is, and one collective wherever a user needs it
otherwise. The result holds for every number of ranks; `split` says which numbers are legal.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from day0.ir.graph import Graph
from day0.ir.op import CacheUse, Op
from day0.registry.family import Shapes
from day0.registry.index import family
from day0.registry.ways import Cut, Way

# What the users of a value want of it: all of it, whatever comes, or a share in a Cut's units.
WHOLE = "whole"
FREE = "free"
Want = str | Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """`kind` "all_reduce" or "all_gather" of `value`, in front of the op `before` ("" at the end of
    the graph)."""

    kind: str
    value: str
    before: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """`ways`: op id -> how it is cut (absent: every rank does all of it). `yields`: op id -> what
    its outputs are: "whole", "split" or "partial". `shares`: (op id, slot) of inputs that are whole
    and of which a rank takes its share."""

    ways: Mapping[str, Way]
    collectives: tuple[Collective, ...]
    yields: Mapping[str, str]
    shares: frozenset[tuple[str, str]]


def place(graph: Graph, shapes_of: Callable[[Op], Shapes]) -> Placement:
    """Ways and collectives of `graph` on the axis "tp". `shapes_of` may give equal ops one object:
    their ways are then worked out once."""
    offered = {}
    known: dict[tuple[str, int], tuple[Shapes, dict[str, Way]]] = {}
    for op in graph.ops:
        shapes = shapes_of(op)
        key = op.family, id(shapes)
        if key not in known:  # holding the shapes keeps their id theirs
            ways = family(op.family).ways(shapes)
            known[key] = shapes, {way.name: way for way in ways if way.axis == "tp"}
        offered[op.id] = known[key][1]
    chosen = _choose(graph, offered)
    return _Walk(graph, offered, chosen).done()


Offered = Mapping[str, Mapping[str, Way]]


def _choose(graph: Graph, offered: Offered) -> dict[str, Way]:
    able = _able(graph, offered)
    values: dict[str, Want] = {}
    caches: dict[str, Want] = {}
    ways: dict[str, Way] = {}
    for op in reversed(graph.ops):
        if op.family == "cache_write":
            for _, value in op.inputs:
                _join(values, value, caches.get(op.caches[0].cache, WHOLE))
            continue
        last = any(value in graph.outputs for _, value in op.outputs)
        wants = [values.get(value, FREE if last else WHOLE) for _, value in op.outputs]
        want = wants[0] if len(wants) == 1 else WHOLE
        fed = all(value in able for _, value in op.inputs)
        way = _pick(offered[op.id], want, fed)
        if way is not None:
            # rows of the vocabulary that are missing at the end are rows of zeros
            ways[op.id] = way = replace(way, padded=way.padded or (last and not way.inputs))
        follows = way is not None and way.name in ("channels", "rows") and isinstance(want, str)
        for slot, value in op.inputs:
            cut = way.inputs.get(slot) if way else None
            _join(values, value, WHOLE if cut is None else FREE if follows else cut)
        cut_caches = {slot: cut for cut in (way.cuts if way else ()) for slot, _ in cut.caches}
        for use in op.caches:
            _join(caches, use.cache, cut_caches.get(use.slot, WHOLE))
    return ways


def _able(graph: Graph, offered: Offered) -> set[str]:
    """Values that can come split although nobody cuts a whole one to pieces."""
    able: set[str] = set()
    for op in graph.ops:
        ways = offered[op.id]
        given = dict(op.inputs)
        follow = ways.get("channels") or ways.get("blocks")
        if (
            "columns" in ways
            or "heads" in ways
            or follow
            and follow.yields == "split"
            and all(given[s] in able for s in follow.inputs)
        ):
            able |= {value for _, value in op.outputs}
    return able


def _pick(ways: Mapping[str, Way], want: Want, fed: bool) -> Way | None:
    """The way for what is wanted; `fed`: all inputs can come split."""
    if "heads" in ways:  # the work is cut whoever has to gather its result
        return ways["heads"]
    partial = [way for way in ways.values() if way.yields == "partial"]
    if want == WHOLE:
        for way in partial:
            if fed or not way.inputs:
                return way
        return ways.get("blocks") if fed else None
    if "columns" in ways:
        return _in_units(ways["columns"], want)
    follow = ways.get("blocks") or ways.get("channels")
    if follow is not None and follow.yields == "split":
        return _in_units(follow, want) if fed or isinstance(want, Cut) else None
    return partial[0] if partial else None


def _in_units(way: Way, want: Want) -> Way | None:
    """The way, dealing out what its users ask for; None where they would cut a unit of its own."""
    first = way.cuts[0]
    if isinstance(want, str) or way.name == "blocks":
        return way
    if first.units % want.units:
        return None
    cut = replace(first, units=want.units, what=want.what, shared=want.shared)
    return replace(way, cuts=(cut, *way.cuts[1:]))


def _join(table: dict[str, Want], name: str, want: Want) -> None:
    have = table.get(name, FREE)
    if FREE in (have, want):
        table[name] = want if have == FREE else have
    elif isinstance(have, Cut) and isinstance(want, Cut):
        same = (have.units, have.shared) == (want.units, want.shared)
        table[name] = have if same else WHOLE
    else:
        table[name] = WHOLE


def _is_cut(op: Op, use: CacheUse, ways: Mapping[str, Way]) -> bool:
    way = ways.get(op.id)
    return way is not None and any(slot == use.slot for cut in way.cuts for slot, _ in cut.caches)


class _Walk:
    """Forwards: "whole", "split" or "partial" for every value, converted where it is needed."""

    def __init__(self, graph: Graph, offered: Offered, ways: dict[str, Way]) -> None:
        self.graph = graph
        self.offered = offered
        self.ways = ways
        self.state = dict.fromkeys(graph.inputs, "whole")
        self.producers = graph.producers()
        self.users = graph.users()
        self.collectives: list[Collective] = []
        self.yields: dict[str, str] = {}
        self.shares: set[tuple[str, str]] = set()
        # a cache that its reader cuts takes entries in the same shares
        self.cut = {use.cache for op in graph.ops for use in op.caches if _is_cut(op, use, ways)}

    def done(self) -> Placement:
        for op in self.graph.ops:
            state = self._sum(op) or self._step(op)
            self.yields[op.id] = state
            self.state.update((value, state) for _, value in op.outputs)
        for value in self.graph.outputs:
            self._whole(value, "")
        return Placement(
            ways=self.ways,
            collectives=tuple(self.collectives),
            yields=self.yields,
            shares=frozenset(self.shares),
        )

    def _step(self, op: Op) -> str:
        way = self.ways.get(op.id)
        split: Collection[str] = way.inputs if way else ()
        if op.family == "cache_write" and op.caches[0].cache in self.cut:
            split = [slot for slot, _ in op.inputs]
        for slot, value in op.inputs:
            if slot in split and self.state[value] == "split":
                continue
            self._whole(value, op.id)
            if slot in split:  # a share of a whole value is cut out of it for nothing
                self.shares.add((op.id, slot))
        return way.yields if way else "whole"

    def _sum(self, op: Op) -> str:
        """Partial sums stay partial in an op that is linear in them. A whole product that is added
        to one is cut along its inputs instead: one collective then serves both."""
        slots = family(op.family).sums
        values = [value for slot, value in op.inputs if slot in slots]
        if op.id in self.ways or "partial" not in [self.state[value] for value in values]:
            return ""
        for value in values:
            maker = self.producers.get(value)
            if self.state[value] != "whole" or maker is None or len(self.users[value]) > 1:
                continue
            rows = self.offered[maker.id].get("rows")
            if rows is not None and maker.id not in self.ways:
                self.ways[maker.id] = replace(rows, optional=True)
                self.yields[maker.id] = self.state[value] = "partial"
                self.shares |= {(maker.id, slot) for slot in rows.inputs}
        if any(self.state[value] != "partial" for value in values):
            return ""
        for slot, value in op.inputs:
            if slot not in slots:
                self._whole(value, op.id)
        return "partial"

    def _whole(self, value: str, before: str) -> None:
        state = self.state[value]
        if state != "whole":
            kind = "all_reduce" if state == "partial" else "all_gather"
            self.collectives.append(Collective(kind=kind, value=value, before=before))
            self.state[value] = "whole"
