"""What has to be compiled before the first request: which kernels, at which numbers of rows.

A kernel is compiled anew for another number of rows where its launch table says so, and because
Triton tells 1, multiples of 16 and other numbers apart. Launch tables change at powers of two, so
a multiple of 16 and another number on either half of every such interval meet all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from day0.ir.op import Op
from day0.passes.lower import Lowered

# Sizes of captured decode steps. Between powers of two a batch pays for at most a third more rows
# than it has.
BUCKETS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
# What the runtime starts itself for an op.
BUILT_IN_KERNELS = {"cache_write": "day0_kernels.cache_write.kernel:cache_write"}
# Sequences of a prefill step: one, a few, and a multiple of 16.
SEQUENCES = (1, 3, 16)


def decode_sizes(num_sequences: int) -> tuple[int, ...]:
    """The buckets that batches of up to `num_sequences` are rounded up to."""
    largest = next((size for size in BUCKETS if size >= num_sequences), BUCKETS[-1])
    return tuple(size for size in BUCKETS if size <= largest)


def prefill_rows(most: int) -> tuple[int, ...]:
    """Numbers of rows, up to `most`, at which prefill steps are run once."""
    found = {1, 2, most}
    power = 16
    while power < 2 * most:
        quarters = (power - power // 4, power)
        found |= {rows for quarter in quarters for rows in (quarter - quarter % 16, quarter - 1)}
        power *= 2
    return tuple(sorted(rows for rows in found if 0 < rows <= most))


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialisation:
    """One kernel of one phase with the sizes it is compiled for; `ops` that run it."""

    family: str
    entry: str
    backend: str
    phase: str
    sizes: str
    ops: tuple[str, ...]


def specialisations(lowered: Mapping[str, Lowered]) -> tuple[Specialisation, ...]:
    """Every kernel with every set of sizes that the model gives it, in program order."""
    found: dict[tuple[str, ...], list[str]] = {}
    for phase, low in lowered.items():
        for op in low.graph.ops:
            choice = low.choices[op.id]
            if choice.backend == "triton" or op.family in BUILT_IN_KERNELS:
                entry = BUILT_IN_KERNELS.get(op.family, choice.entry)
                key = op.family, entry, "triton", phase, _sizes(op, low)
                found.setdefault(key, []).append(op.id)
    return tuple(
        Specialisation(
            family=name, entry=entry, backend=backend, phase=phase, sizes=sizes, ops=tuple(ops)
        )
        for (name, entry, backend, phase, sizes), ops in found.items()
    )


def distinct(low: Lowered) -> tuple[int, ...]:
    """Numbers of the ops that compile all there is: those outside layers, and those of the first
    of all layers that are equal in their ops, implementations and sizes."""
    layers: dict[int, list[int]] = {}
    for number, op in enumerate(low.graph.ops):
        layers.setdefault(op.layer, []).append(number)
    first: dict[object, list[int]] = {}
    for layer, numbers in layers.items():
        what = tuple(
            (low.graph.ops[n].family, compiled(low.graph.ops[n]), low.choices[low.graph.ops[n].id],
             _sizes(low.graph.ops[n], low), tuple(
                 (use.mode, low.caches[use.cache].parts) for use in low.graph.ops[n].caches
             ))
            for n in numbers
        )  # fmt: skip
        first.setdefault(what if layer >= 0 else layer, numbers)
    return tuple(sorted(n for numbers in first.values() for n in numbers))


def compiled(op: Op) -> tuple[tuple[str, object], ...]:
    """The attributes that kernels are compiled for: not the place of a query in its block."""
    return tuple((name, value) for name, value in op.attrs if name != "number")


def _sizes(op: Op, low: Lowered) -> str:
    """The channels of what it reads, and its weights' dims: "x 2304, weight 2304x4096 bf16"."""
    values = [f"{slot} {low.graph.values[value].width}" for slot, value in op.inputs]
    weights = []
    for slot, name in op.weights:
        spec = low.weights[name].spec
        runs = low.precision.weights[name].runs if name in low.precision.weights else spec.format
        weights.append(f"{slot} {'x'.join(map(str, spec.dims))} {runs}")
    return ", ".join((*values, *weights))
