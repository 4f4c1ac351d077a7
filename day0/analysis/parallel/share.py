"""What the rank with the largest share holds and does: shapes after a split, bytes, seconds."""

import math
from dataclasses import dataclass

from day0.analysis.cost import stored_bytes
from day0.analysis.kinds import Held, Kind, Kinds
from day0.analysis.machine import Machine
from day0.analysis.parallel.mesh import Mesh
from day0.analysis.parallel.stages import Stage
from day0.ir.recipe import Recipe
from day0.registry.family import Context, Shapes
from day0.registry.index import family
from day0.registry.split import local, taken

GROWING = ("per-token", "pooled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One forward step of an engine. `phase` "prefill": `rows` tokens of one prompt, which the cp
    ranks deal out. "decode": `rows` sequences with `length` tokens each; every cp rank does all
    rows and holds a share of the caches."""

    phase: str
    rows: int
    length: int

    @property
    def sequences(self) -> int:
        return 1 if self.phase == "prefill" else self.rows

    def tokens(self, mesh: Mesh) -> int:
        """Rows of one rank."""
        return math.ceil(self.rows / mesh.cp) if self.phase == "prefill" else self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A kind on one rank: its shapes and the bytes of each weight slot."""

    shapes: Shapes
    bytes: dict[str, int]

    @property
    def format(self) -> str:
        """That of the largest weight, which decides the rate of the products."""
        largest = max(self.bytes, key=lambda slot: self.bytes[slot], default="")
        return self.shapes.weights[largest].format if largest else "bf16"


class Shares:
    """Parts of all kinds, worked out once per degree."""

    def __init__(self, found: Kinds, recipe: Recipe, machine: Machine) -> None:
        self.found = found
        self.recipe = recipe
        self.machine = machine
        self._parts: dict[tuple[int, int, int], Part] = {}
        self._entries: dict[tuple[str, int], int] = {}
        self._seconds: dict[tuple[int, int, int, Context], float] = {}

    def part(self, number: int, mesh: Mesh) -> Part:
        """Of the kind with this number."""
        key = self._key(number, mesh)
        if key not in self._parts:
            self._parts[key] = _part(self.found.kinds[number], key[1], key[2])
        return self._parts[key]

    def _key(self, number: int, mesh: Mesh) -> tuple[int, int, int]:
        """What a part depends on."""
        if self.found.kinds[number].expert:
            return number, mesh.ep, mesh.expert_tp
        return number, 1, mesh.tp

    def weights(self, mesh: Mesh, stage: Stage) -> int:
        """Bytes of a stage's weights on one rank."""
        return sum(
            count * size
            for number, counts in enumerate(stage.weights)
            for count, size in zip(counts, self.part(number, mesh).bytes.values(), strict=True)
            if count
        )

    def caches(self, mesh: Mesh, stage: Stage, tokens: int) -> int:
        """Bytes that one sequence of `tokens` tokens holds in a stage."""
        total = 0
        for held, count in zip(self.found.held, stage.held, strict=True):
            entries = held.spec.entries(tokens)
            if held.spec.growth in GROWING:
                entries = math.ceil(entries / mesh.cp)
            total += count * entries * self.entry(held, mesh.tp)
        return total

    def entry(self, held: Held, tp: int) -> int:
        """Bytes of one entry of a cache on one rank."""
        key = held.spec.name, tp
        if key not in self._entries:
            self._entries[key] = _entry(held, self.recipe, tp)
        return self._entries[key]

    def seconds(self, number: int, mesh: Mesh, step: Step) -> float:
        """Of one op: the longer of its products and its memory, at the assumed shares of the peaks.
        Where a step reads a cache more than once, its tiles share what they read."""
        kind = self.found.kinds[number]
        rows = self.rows(kind, mesh, step)
        length = step.length if step.phase == "prefill" else math.ceil(step.length / mesh.cp)
        context = Context(phase=step.phase, length=length, rows=rows)
        key = (*self._key(number, mesh), context)
        if key not in self._seconds:
            self._seconds[key] = self._longer(number, mesh, context)
        return self._seconds[key]

    def _longer(self, number: int, mesh: Mesh, context: Context) -> float:
        part = self.part(number, mesh)
        gpu, assumed = self.machine.gpu, self.machine.assumed
        ops = family(self.found.kinds[number].op.family)
        touched = ops.share(part.shapes, context)
        moved = sum(size * touched.get(slot, 1.0) for slot, size in part.bytes.items())
        for slot, entries in ops.entries(part.shapes, context).items():
            read = entries * context.rows
            if context.phase == "prefill":
                read = min(read, float(context.length))
            moved += read * sum(
                stored_bytes(spec.format, spec.dims) for spec in part.shapes.caches.get(slot, ())
            )
        work = ops.flops(part.shapes, context) * context.rows
        return max(
            work / (gpu.rate(part.format) * assumed.matrix),
            moved / (gpu.bandwidth * assumed.bandwidth),
        )

    def rows(self, kind: Kind, mesh: Mesh, step: Step) -> int:
        """Rows that one rank's op of this kind sees."""
        leading = next((spec.dims[0] for spec in kind.shapes.inputs.values()), "T")
        if leading != "T":
            return step.sequences
        return step.rows if kind.expert and mesh.ep > 1 else step.tokens(mesh)


def _entry(held: Held, recipe: Recipe, tp: int) -> int:
    cut = held.cut
    dim = cut.caches[0][1] if cut else 0
    parts = (cut.parts(tp) or tp) if cut else 1
    total = 0
    for name, part in held.spec.parts:
        sizes = [size for size in part.dims if isinstance(size, int)]
        sizes[dim] = math.ceil(sizes[dim] / parts)
        total += stored_bytes(recipe.part(held.spec, name), tuple(sizes))
    return total


def _part(kind: Kind, ep: int, tp: int) -> Part:
    shapes = local(kind.shapes, kind.expert, ep) if kind.expert else kind.shapes
    shapes = local(shapes, taken(kind.op, kind.shapes, kind.way, tp), tp)
    return Part(
        shapes=shapes,
        bytes={slot: stored_bytes(spec.format, spec.dims) for slot, spec in shapes.weights.items()},
    )
