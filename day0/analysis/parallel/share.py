"""What the rank with the largest share holds and does: shapes after a split, bytes, seconds."""

import math
from dataclasses import dataclass

from day0.analysis.cost import stored_bytes
from day0.analysis.kinds import Kind, Kinds, within
from day0.analysis.machine import Machine
from day0.analysis.parallel.mesh import Mesh
from day0.ir.cache import CacheSpec
from day0.ir.recipe import Recipe
from day0.registry.family import Context, Shapes
from day0.registry.index import family
from day0.registry.split import local, taken
from day0.registry.ways import Cut

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

    def part(self, number: int, mesh: Mesh) -> Part:
        """Of the kind with this number."""
        kind = self.found.kinds[number]
        key = (number, mesh.ep, mesh.expert_tp) if kind.expert else (number, 1, mesh.tp)
        if key not in self._parts:
            self._parts[key] = _part(kind, key[1], key[2])
        return self._parts[key]

    def weights(self, mesh: Mesh, first: int, end: int) -> int:
        """Bytes of weights for the layers from `first` to before `end`."""
        return sum(
            size * kind.weights(slot, first, end)
            for number, kind in enumerate(self.found.kinds)
            for slot, size in self.part(number, mesh).bytes.items()
        )

    def caches(self, mesh: Mesh, first: int, end: int, tokens: int) -> int:
        """Bytes that one sequence of `tokens` tokens holds in these layers."""
        total = 0
        for held in self.found.held:
            entries = held.spec.entries(tokens)
            if held.spec.growth in GROWING:
                entries = math.ceil(entries / mesh.cp)
            size = entry_bytes(held.spec, held.cut, self.recipe, mesh.tp)
            total += entries * size * within(held.layers, first, end)
        return total

    def seconds(self, number: int, mesh: Mesh, step: Step) -> float:
        """Of one op: the longer of its products and its memory, at the assumed shares of the peaks.
        Where a step reads a cache more than once, its tiles share what they read."""
        kind, part = self.found.kinds[number], self.part(number, mesh)
        gpu, assumed = self.machine.gpu, self.machine.assumed
        rows = self.rows(kind, mesh, step)
        length = step.length if step.phase == "prefill" else math.ceil(step.length / mesh.cp)
        context = Context(phase=step.phase, length=length, rows=rows)
        ops = family(kind.op.family)
        touched = ops.share(part.shapes, context)
        moved = sum(size * touched.get(slot, 1.0) for slot, size in part.bytes.items())
        for slot, entries in ops.entries(part.shapes, context).items():
            read = entries * rows
            if step.phase == "prefill":
                read = min(read, float(length))
            moved += read * sum(
                stored_bytes(spec.format, spec.dims) for spec in part.shapes.caches.get(slot, ())
            )
        work = ops.flops(part.shapes, context) * rows
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


def entry_bytes(spec: CacheSpec, cut: Cut | None, recipe: Recipe, tp: int) -> int:
    """Bytes of one entry on one rank."""
    dim = cut.caches[0][1] if cut else 0
    parts = (cut.parts(tp) or tp) if cut else 1
    total = 0
    for name, part in spec.parts:
        sizes = [size for size in part.dims if isinstance(size, int)]
        sizes[dim] = math.ceil(sizes[dim] / parts)
        total += stored_bytes(recipe.part(spec, name), tuple(sizes))
    return total


def _part(kind: Kind, ep: int, tp: int) -> Part:
    shapes = local(kind.shapes, kind.expert, ep) if kind.expert else kind.shapes
    shapes = local(shapes, taken(kind.op, kind.shapes, kind.way, tp), tp)
    return Part(
        shapes=shapes,
        bytes={slot: stored_bytes(spec.format, spec.dims) for slot, spec in shapes.weights.items()},
    )
