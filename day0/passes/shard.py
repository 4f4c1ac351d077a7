"""A model's graph as one rank of a mesh runs it: its share of weights, heads, experts and caches,
and the collectives between them as ops of the graph.

The placement says how every op is cut and where a value is needed whole; this pass cuts and
inserts. A value that every rank has whole keeps its name; a rank's share of it, or its part of a
sum, is called `<value>.part`. All ranks get the same ops in the same order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from day0.errors import NotSupported
from day0.ir.cache import CacheSpec
from day0.ir.op import Op, Slots
from day0.ir.weight import Weight
from day0.parallel.mesh import Axis, Mesh
from day0.passes.exchange import add_experts
from day0.passes.legal import expert_way_of, must_be_legal
from day0.passes.pieces import Piece, Ways, border_of, piece, span_in
from day0.passes.state import State
from day0.registry.family import Shapes
from day0.registry.index import family
from day0.registry.placement import Collective, Placement, place
from day0.registry.shapes import shapes_of
from day0.registry.split import taken
from day0.registry.ways import Cut, Way

# Families of the local ops that this pass inserts beside collectives.
SHARDING = {"local_experts", "lone", "share"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A rank of a mesh. `exchange`: rows travel to their experts also where all ranks have them;
    `chunks`: in so many pieces, so that one is computed while the next is on the wire; `wide`:
    parts of sums are fp32, so that a sum is rounded once, as on one rank."""

    mesh: Mesh = Mesh()
    rank: int = 0
    exchange: bool = False
    chunks: int = 1
    wide: bool = False

    def axis(self, name: str) -> Axis:
        return self.mesh.axis(name, self.rank)


def shard(state: State, at: Place) -> tuple[State, tuple[str, ...]]:
    """The rank's graph, and the ids of the ops that were cut or inserted. DoesNotFit (exit 3) where
    the mesh splits something that cannot be split, with the reasons."""
    if at.mesh.size == 1:
        return state, ()
    shapes = {op.id: shapes_of(op, state.graph, state, state.recipe) for op in state.graph.ops}
    placement = place(state.graph, lambda op: shapes[op.id])
    must_be_legal(state.graph, at.mesh, shapes, placement)
    return Sharding(state, at, shapes, placement).done()


class Sharding:
    """The walk over the ops of one graph."""

    def __init__(
        self, state: State, at: Place, shapes: dict[str, Shapes], placement: Placement
    ) -> None:
        self.state = state
        self.at = at
        self.tp = at.axis("tp")
        self.shapes = shapes
        self.placement = placement
        self.values = dict(state.graph.values)
        self.weights: dict[str, Weight] = {}
        self.caches: dict[str, CacheSpec] = {}
        self.ops: list[Op] = []
        self.changed: list[str] = []
        # value -> how its producer leaves it, and what of the last dim each rank then has
        self.yields: dict[str, str] = {}
        self.widths: dict[str, tuple[tuple[int, ...], int]] = {}
        self.before: dict[str, list[Collective]] = {}
        # what readers cut is written in the same shares
        self.cut_caches = _cut_caches(state, placement) if self.tp.size > 1 else {}
        for one in placement.collectives if self.tp.size > 1 else ():
            self.before.setdefault(one.before, []).append(one)

    def done(self) -> tuple[State, tuple[str, ...]]:
        for op in self.state.graph.ops:
            self._make_whole(op.id, op.layer)
            self._op(op)
        self._make_whole("", -1)
        rewritten = self.state.rewritten(
            tuple(self.ops), values=self.values, weights=self.weights, caches=self.caches
        )
        return rewritten, tuple(self.changed)

    def add(
        self, name: str, layer: int, inputs: Mapping[str, str], output: str, **attrs: Any
    ) -> None:
        """An op that the mesh asks for; beside the first output others are `<output>.<slot>`."""
        kind = family(name)
        names = (
            output if number == 0 else f"{output}.{slot}"
            for number, slot in enumerate(kind.outputs)
        )
        op = Op(
            id=f"{output}.{name}",
            family=name,
            layer=layer,
            inputs=tuple(inputs.items()),
            outputs=tuple(zip(kind.outputs, names, strict=True)),
            attrs=tuple(kind.complete(attrs).items()),
        )
        specs = kind.infer(self._shapes(op))
        self.values |= {value: specs[slot] for slot, value in op.outputs}
        self.ops.append(op)
        self.changed.append(op.id)

    def _make_whole(self, before: str, layer: int) -> None:
        """The collectives that stand in front of an op."""
        for one in self.before.get(before, ()):
            attrs: dict[str, Any] = {"axis": "tp", "ranks": self.tp.size}
            if one.kind == "all_gather":
                attrs["widths"], attrs["copies"] = self.widths[one.value]
            self.add(one.kind, layer, {"x": part_of(one.value)}, one.value, **attrs)
            self.values[one.value] = self.state.graph.values[one.value]

    def _op(self, op: Op) -> None:
        shapes = self.shapes[op.id]
        asked = self.placement.ways.get(op.id) if self.tp.size > 1 else None
        if expert_way_of(op, shapes) is not None:
            add_experts(self, op, asked)
            return
        way = taken(op, shapes, asked, self.tp.size)
        inputs = tuple((slot, self._input(op, slot, value, way)) for slot, value in op.inputs)
        ways = () if way is None else ((way, self.tp),)
        if asked is not None and way is None:
            self._alone(op, inputs)
        else:
            named = {value: self.own(op, value) for _, value in op.outputs}
            self.put(op, ways, inputs, named, summed=self.summed(op))
        for _, value in op.outputs:
            self.yields[value] = self.placement.yields[op.id] if self.tp.size > 1 else "whole"
            if self.yields[value] == "split" and way is not None:
                width = self.state.graph.values[value].width
                self.widths[value] = _widths(way, width, self.tp, shapes)

    def summed(self, op: Op) -> bool:
        """Whether what `op` yields is a part of a sum over the tp ranks."""
        return self.tp.size > 1 and self.placement.yields[op.id] == "partial"

    def own(self, op: Op, value: str) -> str:
        """What the rank calls an output of `op`: by its name where it is whole."""
        whole = self.tp.size == 1 or self.placement.yields[op.id] == "whole"
        return value if whole else part_of(value)

    def put(
        self,
        op: Op,
        ways: Ways,
        inputs: Slots,
        names: Mapping[str, str],
        *,
        ident: str = "",
        summed: bool = False,
        **attrs: Any,
    ) -> None:
        """The rank's share of `op`, reading `inputs`; `names`: how its outputs are called, which
        are parts of a sum where `summed`; `attrs` that its share changes."""
        mine = piece(op, self.shapes[op.id], self.state, ways)
        self._keep(mine)
        done = replace(
            op,
            id=ident or op.id,
            inputs=inputs,
            outputs=tuple((slot, names[value]) for slot, value in op.outputs),
            weights=mine.weight_slots,
            attrs=tuple(sorted({**dict(mine.attrs), **attrs}.items())),
        )
        specs = family(op.family).infer(self._shapes(done))
        for slot, value in op.outputs:
            spec = self.state.graph.values[value]
            form = "fp32" if summed and self.at.wide else spec.format
            self.values[names[value]] = replace(spec, dims=specs[slot].dims, format=form)
        self.ops.append(done)
        if done != op:
            self.changed.append(op.id)

    def _alone(self, op: Op, inputs: Slots) -> None:
        """All of `op` on every rank; the first one's result counts in the sum."""
        named = {value: f"{value}.all" for _, value in op.outputs}
        self.put(op, (), inputs, named, summed=True)
        for _, value in op.outputs:
            self.add(
                "lone", op.layer, {"x": f"{value}.all"}, part_of(value), keep=self.tp.place == 0
            )

    def _input(self, op: Op, slot: str, value: str, way: Way | None) -> str:
        """The name under which a rank has what the op reads."""
        yields = self.yields.get(value, "whole")
        cut = way.inputs.get(slot) if way else None
        wanted = cut is not None or (
            op.family == "cache_write" and op.caches[0].cache in self.cut_caches
        )
        if wanted and (op.id, slot) in self.placement.shares:
            return self._share(op, value, way, slot)
        if wanted and yields == "split":
            return part_of(value)
        summed = self.placement.yields[op.id] == "partial" and way is None
        if summed and slot in family(op.family).sums and self.tp.size > 1:
            return part_of(value)
        return value

    def _share(self, op: Op, value: str, way: Way | None, slot: str) -> str:
        """A rank's channels of a value that it has whole."""
        width = self.state.graph.values[value].width
        cut = way.inputs[slot] if way else self.cut_caches[op.caches[0].cache]
        start, stop = span_in(cut, width, self.tp, padded=way is not None and way.padded)
        name = f"{value}.{start}:{stop}"
        if name not in self.values:
            self.add("share", op.layer, {"x": value}, name, begin=start, end=stop)
        return name

    def _keep(self, mine: Piece) -> None:
        for table, found in ((self.weights, mine.weights), (self.caches, mine.caches)):
            for name, one in found.items():
                if table.setdefault(name, one) != one:  # type: ignore[arg-type]
                    raise NotSupported(
                        f"{name} is cut in two ways by its users", hint="day0 run without --mesh"
                    )

    def _shapes(self, op: Op) -> Shapes:
        caches = {use.slot: self._cache(use.cache).parts for use in op.caches}
        return Shapes(
            inputs={slot: self.values[value] for slot, value in op.inputs},
            weights={slot: self._weight(name).spec for slot, name in op.weights},
            caches={slot: tuple(spec for _, spec in parts) for slot, parts in caches.items()},
            attrs=dict(op.attrs),
        )

    def _weight(self, name: str) -> Weight:
        return self.weights.get(name) or self.state.weights[name]

    def _cache(self, name: str) -> CacheSpec:
        return self.caches.get(name) or self.state.caches[name]


def part_of(value: str) -> str:
    """The name of a rank's share of a value, or of its part of a sum."""
    return f"{value}.part"


def _cut_caches(state: State, placement: Placement) -> dict[str, Cut]:
    """Cache -> how its readers cut it."""
    return {
        use.cache: cut
        for op in state.graph.ops
        if op.id in placement.ways
        for use in op.caches
        for cut in placement.ways[op.id].cuts
        if any(slot == use.slot for slot, _ in cut.caches)
    }


def _widths(way: Way, width: int, axis: Axis, shapes: Shapes) -> tuple[tuple[int, ...], int]:
    """Channels that each rank has of a split value, and how many neighbours have the same."""
    cut = way.cuts[0]
    border = border_of(cut, shapes)
    spans = [
        span_in(cut, width, replace(axis, place=place), padded=way.padded, border=border)
        for place in range(axis.size)
    ]
    copies = axis.size // (cut.parts(axis.size) or axis.size)
    return tuple(stop - start for start, stop in spans), copies
