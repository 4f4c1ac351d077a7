"""Values between ops: what is alive at once, what later layers read, what crosses a layer border.

Of the canonical graph, before fusion: an upper bound of what a lowered one keeps.
"""

from dataclasses import dataclass

from day0.analysis.cost import stored_bytes
from day0.analysis.kinds import Kinds
from day0.ir.graph import Graph
from day0.registry.split import taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """Bytes per row: `peak` the most that live at once, `bank` of them those that a later layer
    than the next reads (blocks of attention residuals, shared indices); `last` of the rows that
    logits are made of, per sequence."""

    peak: int
    bank: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A value: bytes per row, whether the op that yields it leaves it split, number of the last op
    that reads it, whether it is kept across layers, whether its rows are the step's tokens."""

    bytes: int
    maker: str
    last: int
    kept: bool
    tokens: bool


class Values:
    """Lives of all values of a graph."""

    def __init__(self, graph: Graph, found: Kinds) -> None:
        self.graph = graph
        self.found = found
        self._kind_of = {name: kind for kind in found.kinds for name in kind.ops}
        end = len(graph.ops)
        last = dict.fromkeys(graph.outputs, end)
        for number, op in enumerate(graph.ops):
            for _, value in op.inputs:
                last[value] = max(last.get(value, 0), number)
        self.lives: list[tuple[Life, ...]] = []
        for number, op in enumerate(graph.ops):
            here = found.places[op.id]
            lives = []
            for _, value in op.outputs:
                until = last.get(value, number)
                reader = found.places[graph.ops[min(until, end - 1)].id]
                spec = graph.values[value]
                life = Life(
                    bytes=stored_bytes(spec.format, spec.dims),
                    maker=op.id,
                    last=until,
                    kept=reader - here > 1,
                    tokens=spec.dims[0] == "T",
                )
                lives.append(life)
            self.lives.append(tuple(lives))

    def alive(self, tp: int) -> Alive:
        """With values split over `tp` ranks where the placement leaves them split."""
        ends: dict[int, list[tuple[int, bool]]] = {}
        now = kept = peak = bank = last = 0
        for number, lives in enumerate(self.lives):
            for life in lives:
                size = self._share(life, tp)
                if not life.tokens:
                    last = max(last, size)
                    continue
                now += size
                kept += size if life.kept else 0
                ends.setdefault(life.last, []).append((size, life.kept))
            if now > peak:
                peak, bank = now, kept
            for size, was_kept in ends.pop(number, ()):
                now -= size
                kept -= size if was_kept else 0
        return Alive(peak=peak, bank=bank, last=last)

    def borders(self) -> dict[int, int]:
        """Layer -> bytes per row that a stage beginning with it receives."""
        found: dict[int, int] = {}
        ends: dict[int, int] = {}
        now = 0
        for number, (op, lives) in enumerate(zip(self.graph.ops, self.lives, strict=True)):
            found.setdefault(self.found.places[op.id], now)
            for life in lives:
                if life.tokens:
                    now += life.bytes
                    ends[life.last] = ends.get(life.last, 0) + life.bytes
            now -= ends.pop(number, 0)
        return found

    def _share(self, life: Life, tp: int) -> int:
        kind = self._kind_of[life.maker]
        way = self.found.placement.ways.get(life.maker)
        if tp == 1 or way is None or way.yields != "split":
            return life.bytes
        if way.optional and taken(kind.op, kind.shapes, way, tp) is None:
            return life.bytes
        return -(-life.bytes // tp)
