"""What ranks send one another, per step: bytes of one rank, by mesh axis.

Rings: an all-reduce of B bytes over n ranks sends 2 (n-1)/n B from each of them, an all-gather
(n-1)/n B (Thakur et al., 2005, doi 10.1177/1094342005051521).
"""

from collections import defaultdict
from dataclasses import dataclass

from day0.analysis.cost import stored_bytes
from day0.analysis.parallel.mesh import Mesh
from day0.analysis.parallel.share import GROWING, Shares, Step
from day0.analysis.parallel.stages import Stage
from day0.ir.graph import Model
from day0.registry.index import family
from day0.registry.zigzag import relayout_bytes, state_bytes

AXES = ("tp", "ep", "cp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Bytes that one rank sends on `axis` in one go; `times` gos for each occurrence of what
    `source` and `number` name: a kind, a cache of Kinds.held or a spot."""

    axis: str
    bytes: float
    source: str
    number: int
    times: int = 1

    def count(self, stage: Stage) -> int:
        """Gos of a stage."""
        counts = {"kind": stage.kinds, "held": stage.held, "spot": stage.spots}
        return self.times * counts[self.source][self.number]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
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
        self.spots = tuple(
            Spot(kind=kind, row_bytes=size, tokens=tokens, layers=tuple(sorted(layers)))
            for (kind, size, tokens), layers in spots.items()
        )

    def messages(self, mesh: Mesh, step: Step) -> list[Message]:
        """Of one step."""
        found = self._tensor(mesh, step) if mesh.tp > 1 else []
        if mesh.cp == 1:
            return found
        for number, kind in enumerate(self.shares.found.kinds):
            if kind.expert is not None and mesh.ep > 1:
                found.append(self._experts(number, mesh, step))
            size = self._merged(number, mesh, step) + self._states(number, mesh, step)
            if size:
                found.append(Message(axis="cp", bytes=size, source="kind", number=number))
        if step.phase == "prefill":
            found += self._entries(mesh, step)
        return found

    def _tensor(self, mesh: Mesh, step: Step) -> list[Message]:
        found = []
        for number, spot in enumerate(self.spots):
            rows = step.tokens(mesh) if spot.tokens else step.sequences
            passes = 2 if spot.kind == "all_reduce" else 1
            size = passes * (mesh.tp - 1) / mesh.tp * rows * spot.row_bytes
            found.append(Message(axis="tp", bytes=size, source="spot", number=number))
        return found

    def _experts(self, number: int, mesh: Mesh, step: Step) -> Message:
        """Prefill: rows go to the cp ranks that hold their experts, and results come back. Decode:
        all have the rows, and sum their results."""
        kind = self.shares.found.kinds[number]
        row = stored_bytes("bf16", (kind.shapes.width("x"),))
        others = (mesh.cp - 1) / mesh.cp
        if step.phase == "decode":
            size = 2 * others * step.rows * row
            return Message(axis="ep", bytes=size, source="kind", number=number)
        reached = mesh.cp * (1 - (1 - 1 / mesh.cp) ** kind.shapes.attrs["top_k"])
        size = step.tokens(mesh) * row * reached * others
        return Message(axis="ep", bytes=size, source="kind", number=number, times=2)

    def _merged(self, number: int, mesh: Mesh, step: Step) -> float:
        """Decode: partial results over each rank's share of the history, in fp32, are merged."""
        kind = self.shares.found.kinds[number]
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

    def _entries(self, mesh: Mesh, step: Step) -> list[Message]:
        """Prefill: the other ranks' entries of growing caches, all of them; of windows those that
        precede a rank's two blocks, as far as others hold them."""
        found = []
        for number, held in enumerate(self.shares.found.held):
            spec = held.spec
            if spec.growth == "per-sequence":
                continue
            others = (mesh.cp - 1) / mesh.cp
            if spec.growth == "window":
                entries = min(2.0 * spec.span, step.rows * others)
            else:
                entries = spec.entries(step.rows) * others
            size = entries * self.shares.entry(held, mesh.tp)
            found.append(Message(axis="cp", bytes=size, source="held", number=number))
        return found
