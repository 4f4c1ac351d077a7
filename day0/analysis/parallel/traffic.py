"""What ranks send one another, per step: bytes of one rank, by mesh axis.

Rings: an all-reduce of B bytes over n ranks sends 2 (n-1)/n B from each of them, an all-gather
(n-1)/n B (Thakur et al., 2005, doi 10.1177/1094342005051521).
"""

import math
from collections import defaultdict
from dataclasses import dataclass

from day0.analysis.cost import stored_bytes
from day0.analysis.kinds import Kind, within
from day0.analysis.parallel.mesh import Mesh
from day0.analysis.parallel.share import GROWING, Shares, Step, entry_bytes
from day0.ir.graph import Model
from day0.registry.index import family
from day0.registry.zigzag import relayout_bytes, state_bytes

AXES = ("tp", "ep", "cp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Bytes that one rank sends on `axis` in one go, and how many gos some layers have."""

    axis: str
    bytes: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spot:
    """Equal collectives of the placement, and the layers they stand in, rising."""

    kind: str
    row_bytes: int
    tokens: bool
    layers: tuple[int, ...]


class Traffic:
    """Messages of a model on any mesh."""

    def __init__(self, model: Model, shares: Shares) -> None:
        self.model = model
        self.shares = shares
        graph = model.graphs["main"]
        found = shares.found
        spots: dict[tuple[str, int, bool], list[int]] = defaultdict(list)
        for one in found.placement.collectives:
            spec = graph.values[one.value]
            place = found.places[one.before] if one.before else found.num_layers - 1
            size = stored_bytes(spec.format, spec.dims)
            spots[one.kind, size, spec.dims[0] == "T"].append(place)
        self.spots = [
            _Spot(kind=kind, row_bytes=size, tokens=tokens, layers=tuple(sorted(layers)))
            for (kind, size, tokens), layers in spots.items()
        ]

    def messages(self, mesh: Mesh, step: Step, first: int, end: int) -> list[Message]:
        """Of the layers from `first` to before `end`."""
        found = [*self._tensor(mesh, step, first, end)] if mesh.tp > 1 else []
        for number, kind in enumerate(self.shares.found.kinds):
            count = kind.count(first, end)
            if count and mesh.cp > 1:
                if kind.expert is not None and mesh.ep > 1:
                    found += self._experts(kind, mesh, step, count)
                size = self._merged(number, kind, mesh, step) + self._states(number, mesh, step)
                if size:
                    found.append(Message(axis="cp", bytes=size, count=count))
        if mesh.cp > 1 and step.phase == "prefill":
            found += self._entries(mesh, step, first, end)
        return found

    def _tensor(self, mesh: Mesh, step: Step, first: int, end: int) -> list[Message]:
        found = []
        for spot in self.spots:
            rows = step.tokens(mesh) if spot.tokens else step.sequences
            times = 2 if spot.kind == "all_reduce" else 1
            size = times * (mesh.tp - 1) / mesh.tp * rows * spot.row_bytes
            count = within(spot.layers, first, end)
            if count:
                found.append(Message(axis="tp", bytes=size, count=count))
        return found

    def _experts(self, kind: Kind, mesh: Mesh, step: Step, count: int) -> list[Message]:
        """Prefill: rows go to the cp ranks that hold their experts, and results come back. Decode:
        all have the rows, and sum their results."""
        row = stored_bytes("bf16", (kind.shapes.width("x"),))
        others = (mesh.cp - 1) / mesh.cp
        if step.phase == "decode":
            return [Message(axis="ep", bytes=2 * others * step.rows * row, count=count)]
        chosen = kind.shapes.attrs["top_k"]
        reached = mesh.cp * (1 - (1 - 1 / mesh.cp) ** chosen)
        one_way = step.tokens(mesh) * row * reached * others
        return [Message(axis="ep", bytes=one_way, count=2 * count)]

    def _merged(self, number: int, kind: Kind, mesh: Mesh, step: Step) -> float:
        """Decode: partial results over each rank's share of the history, in fp32, are merged."""
        reads = [self.model.caches[use.cache].growth for use in kind.op.caches if use.mode == "r"]
        if step.phase == "prefill" or not any(growth in GROWING for growth in reads):
            return 0.0
        outputs = family(kind.op.family).infer(self.shares.part(number, mesh).shapes)
        width = sum(spec.width for spec in outputs.values())
        return 2 * (mesh.cp - 1) / mesh.cp * step.rows * width * 4

    def _states(self, number: int, mesh: Mesh, step: Step) -> float:
        """Prefill: a recurrent layer's states are handed on, or its rows are brought into order:
        whichever is less."""
        kind = self.shares.found.kinds[number]
        transition = family(kind.op.family).transition
        if step.phase == "decode" or transition is None:
            return 0.0
        elements = transition(self.shares.part(number, mesh).shapes)
        return min(
            state_bytes(elements, "zigzag", mesh.cp),
            relayout_bytes(step.rows, self.model.spec.shape.hidden_size, mesh.cp),
        )

    def _entries(self, mesh: Mesh, step: Step, first: int, end: int) -> list[Message]:
        """Prefill: the other ranks' entries of growing caches, all of them; of windows those that
        precede a rank's two blocks."""
        found = []
        for held in self.shares.found.held:
            count = within(held.layers, first, end)
            spec = held.spec
            if not count or spec.growth == "per-sequence":
                continue
            if spec.growth == "window":
                block = math.ceil(step.rows / (2 * mesh.cp))
                entries = 2.0 * min(spec.span, block * (2 * mesh.cp - 1))
            else:
                entries = spec.entries(step.rows) * (mesh.cp - 1) / mesh.cp
            size = entry_bytes(spec, held.cut, self.shares.recipe, mesh.tp)
            found.append(Message(axis="cp", bytes=entries * size, count=count))
        return found
