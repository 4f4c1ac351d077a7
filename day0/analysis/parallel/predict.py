"""Memory of a rank and predicted times of a mesh: floors at the stated shares of the peaks."""

import math
from dataclasses import dataclass
from operator import mul

from day0.analysis.parallel.mesh import Mesh
from day0.analysis.parallel.share import Shares, Step
from day0.analysis.parallel.stages import Stages
from day0.analysis.parallel.traffic import AXES, Traffic
from day0.analysis.parallel.values import Alive, Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of the fullest rank with one sequence of the assumed context: `weights` as the recipe
    runs them, `aside` of towers that the graph does not run (each rank holds them whole), `caches`,
    `activations` between the ops of a prefill chunk and `bank` of them kept for later layers,
    `workspace` assumed, with two buffers of the largest collective."""

    weights: int
    aside: int
    caches: int
    activations: int
    bank: int
    workspace: int

    @property
    def fixed(self) -> int:
        """All but the caches."""
        return self.weights + self.aside + self.activations + self.bank + self.workspace

    @property
    def total(self) -> int:
        return self.fixed + self.caches


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Bytes that one rank sends in a step, by axis, and the mean over the layers of all but `pp`
    (the message to the next stage)."""

    tp: float
    ep: float
    cp: float
    pp: float
    per_layer: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds: `ttft` of one prompt alone, `tpot` of one sequence alone; at `batch` sequences an
    engine `tpot_batch`, and tokens per second of all replicas together."""

    ttft: float
    tpot: float
    batch: int
    tpot_batch: float
    tokens_per_second: float


class Predictor:
    """Asks shares, values and traffic, each once per degree."""

    def __init__(self, shares: Shares, values: Values, traffic: Traffic, aside: int) -> None:
        self.shares = shares
        self.traffic = traffic
        self.aside = aside
        self.machine = shares.machine
        self.num_layers = shares.found.num_layers
        self.num_kinds = len(shares.found.kinds)
        self.stages = Stages(shares.found, tuple(spot.layers for spot in traffic.spots))
        (self.whole,) = self.stages.of(1)
        self._values = values
        self._borders = values.borders()
        self._alive: dict[int, Alive] = {}

    def memory(self, mesh: Mesh) -> Memory:
        """Of the stage whose weights and caches are the most."""
        assumed = self.machine.assumed
        context = assumed.context
        weights, caches = max(
            (
                (self.shares.weights(mesh, stage), self.shares.caches(mesh, stage, context))
                for stage in self.stages.of(mesh.pp)
            ),
            key=sum,
        )
        alive = self.alive(mesh.tp)
        rows = math.ceil(assumed.chunk / mesh.cp)
        buffers = 0
        if mesh.tp > 1:
            buffers = 2 * max((s.row_bytes for s in self.traffic.spots if s.tokens), default=0)
        return Memory(
            weights=weights,
            aside=self.aside,
            caches=caches,
            activations=(alive.peak - alive.bank) * rows + alive.last,
            bank=alive.bank * rows,
            workspace=assumed.workspace + buffers * rows,
        )

    def alive(self, tp: int) -> Alive:
        if tp not in self._alive:
            self._alive[tp] = self._values.alive(tp)
        return self._alive[tp]

    def most_sequences(self, mesh: Mesh, memory: Memory) -> int:
        """Sequences of the assumed context that fit beside the rest."""
        free = self.machine.usable - memory.fixed
        return max(int(free // memory.caches), 0) if memory.caches else self.machine.assumed.batch

    def sent(self, mesh: Mesh, step: Step) -> Sent:
        """Of all stages together, for per-layer figures; a rank of one stage sends its share."""
        totals: dict[str, float] = dict.fromkeys(AXES, 0.0)
        for message in self.traffic.messages(mesh, step):
            totals[message.axis] += message.bytes * message.count(self.whole)
        return Sent(
            **totals,
            pp=self._border(mesh, step),
            per_layer=sum(totals.values()) / self.num_layers,
        )

    def times(self, mesh: Mesh, most: int) -> Times:
        """`most`: sequences that fit at once."""
        assumed = self.machine.assumed
        chunks = math.ceil(assumed.prompt / assumed.chunk)
        rows = math.ceil(assumed.prompt / chunks)
        prefill = self._stages(mesh, Step(phase="prefill", rows=rows, length=assumed.prompt))
        single = self._stages(mesh, Step(phase="decode", rows=1, length=assumed.context))
        ttft = chunks * _sum(prefill)
        batch = max(1, min(most, assumed.batch))
        micro = max(1, batch // mesh.pp)
        full = self._stages(mesh, Step(phase="decode", rows=micro, length=assumed.context))
        # with fewer sequences than stages, some stages wait
        round_trip = max(_most(full) * min(mesh.pp, batch), _sum(full))
        at_once = micro * min(mesh.pp, batch)
        busy = chunks * _most(prefill) * at_once + assumed.output * round_trip
        return Times(
            ttft=ttft,
            tpot=_sum(single),
            batch=at_once,
            tpot_batch=round_trip,
            tokens_per_second=mesh.replicas * at_once * assumed.output / busy,
        )

    def _stages(self, mesh: Mesh, step: Step) -> list[tuple[float, int]]:
        """Seconds of every distinct stage, with the message to the next, and how many are alike."""
        ops = [self.shares.seconds(number, mesh, step) for number in range(self.num_kinds)]
        sent = [
            (one, self._took(one.axis, one.bytes, mesh))
            for one in self.traffic.messages(mesh, step)
        ]
        border = self._border(mesh, step)
        onward = self._took("pp", border, mesh) if border else 0.0
        return [
            (
                sum(map(mul, ops, stage.kinds))
                + sum(one.count(stage) * seconds for one, seconds in sent)
                + onward,
                stage.alike,
            )
            for stage in self.stages.of(mesh.pp)
        ]

    def _border(self, mesh: Mesh, step: Step) -> float:
        """Bytes that the fullest border between stages is crossed by."""
        if mesh.pp == 1:
            return 0.0
        begins = [self._borders[first] for first, _ in self.stages.bounds(mesh.pp)[1:]]
        return step.tokens(mesh) * max(begins)

    def _took(self, axis: str, size: float, mesh: Mesh) -> float:
        """Seconds, over the link of a host or, for ranks of several hosts, the network."""
        gpu, assumed = self.machine.gpu, self.machine.assumed
        ranks = {"tp": mesh.tp, "pp": mesh.tp * mesh.cp * mesh.pp}
        inside = ranks.get(axis, mesh.tp * mesh.cp) <= gpu.host
        speed = gpu.link if inside else assumed.network
        return size / (speed * assumed.link) + assumed.hop_seconds


def _sum(stages: list[tuple[float, int]]) -> float:
    return sum(seconds * alike for seconds, alike in stages)


def _most(stages: list[tuple[float, int]]) -> float:
    return max(seconds for seconds, _ in stages)
