"""The plan `cost`: what every kind of operator does in a step, and what bounds it.

A floor: the peak rates of the GPU's data sheet, every byte moved once, no launches, no fusion. What
is launched at batch 1 and short lengths takes longer; the schedule's subject.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from day0.analysis.cost import cost, stored_bytes
from day0.analysis.inventory import Entry
from day0.analysis.machine import Gpu, Machine
from day0.ir.graph import Model
from day0.registry.family import Context, Shapes
from day0.registry.index import family

BOUNDS = ("matrix", "weights", "caches", "values")
BATCH = 64  # of the third step


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """All operators of one family, or of one kind where `name` says more. Per step: `flops`, bytes
    of weights, caches and of values read and written between operators. `seconds` of one GPU;
    `share` of the step; `bound`: "matrix" (the rate of products), else what most bytes are of."""

    family: str
    entries: tuple[int, ...]
    count: int
    flops: float
    weight_bytes: float
    cache_bytes: float
    value_bytes: float
    seconds: float
    share: float
    bound: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`rows` tokens of a prompt, or one token of each of `rows` sequences that hold `length`.
    `seconds`: the floor of one GPU; `floor`: of all GPUs, were the work divided evenly and nothing
    sent."""

    name: str
    phase: str
    length: int
    rows: int
    lines: tuple[Line, ...]
    seconds: float
    floor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPlan:
    """Steps by name, lines dearest first."""

    machine: Machine
    steps: tuple[Step, ...]


def roofline(model: Model, entries: tuple[Entry, ...], machine: Machine) -> CostPlan:
    """Of the inventory's operators in a prefill step and in decode steps of one and of 64."""
    load = machine.assumed
    steps = {
        "prefill": Context(phase="prefill", length=load.prompt, rows=load.prompt),
        "decode": Context(length=load.context, rows=1),
        f"decode_batch_{BATCH}": Context(length=load.context, rows=BATCH),
    }
    ops = {op.id: op for op in model.graphs["main"].ops}
    present = [
        {use.slot: model.caches[use.cache] for use in ops[entry.ops[0]].caches} for entry in entries
    ]
    made = []
    for name, context in steps.items():
        capacity = [
            {slot: cache.entries(context.length) for slot, cache in caches.items()}
            for caches in present
        ]
        made.append(_step(name, context, entries, capacity, machine))
    return CostPlan(machine=machine, steps=tuple(made))


def _step(
    name: str,
    context: Context,
    entries: tuple[Entry, ...],
    capacity: list[dict[str, int]],
    machine: Machine,
) -> Step:
    groups: dict[str, list[int]] = {}
    for number, entry in enumerate(entries):
        groups.setdefault(entry.family, []).append(number)
    lines = []
    for kind, numbers in groups.items():
        parts = [_one(entries[n], capacity[n], context, machine.gpu) for n in numbers]
        whole = _sum(parts)
        lines.append((kind, numbers, whole))
    total = sum(whole.seconds for _, _, whole in lines)
    found = [
        Line(
            family=kind,
            entries=tuple(numbers),
            count=sum(entries[n].count for n in numbers),
            flops=whole.flops,
            weight_bytes=whole.weights,
            cache_bytes=whole.caches,
            value_bytes=whole.values,
            seconds=whole.seconds,
            share=whole.seconds / total if total else 0.0,
            bound=max(BOUNDS, key=lambda bound: whole.by_bound.get(bound, 0.0)),
        )
        for kind, numbers, whole in lines
    ]
    return Step(
        name=name,
        phase=context.phase,
        length=context.length,
        rows=context.rows,
        lines=tuple(sorted(found, key=lambda line: (-line.seconds, line.family))),
        seconds=total,
        floor=total / machine.count,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    flops: float
    weights: float
    caches: float
    values: float
    seconds: float
    by_bound: Mapping[str, float]


def _one(entry: Entry, capacity: Mapping[str, int], context: Context, gpu: Gpu) -> _Work:
    """All operators like this one in one step."""
    shapes, kind = entry.shapes, family(entry.family)
    per_row = cost(family_name=entry.family, shapes=shapes, context=context)
    rows = _rows(shapes, context)
    flops = per_row.flops * rows
    values = rows * sum(
        stored_bytes(spec.format, spec.dims)
        for spec in (*shapes.inputs.values(), *kind.infer(shapes).values())
    )
    caches = _cache_bytes(shapes, kind.entries(shapes, context), capacity, context)
    moved = {"weights": per_row.weight_bytes, "caches": caches, "values": values}
    widest = max(shapes.weights.values(), key=lambda spec: spec.width, default=None)
    rate = gpu.rate("bf16" if widest is None else widest.format)
    compute, memory = flops / rate, sum(moved.values()) / gpu.bandwidth
    bound = "matrix" if compute > memory else max(moved, key=lambda name: moved[name])
    seconds = max(compute, memory) * entry.count
    return _Work(
        flops=flops * entry.count,
        weights=moved["weights"] * entry.count,
        caches=caches * entry.count,
        values=values * entry.count,
        seconds=seconds,
        by_bound={bound: seconds},
    )


def _rows(shapes: Shapes, context: Context) -> int:
    """Rows of the step: the head works on the last one of each sequence alone."""
    of_tokens = any(spec.dims and spec.dims[0] == "T" for spec in shapes.inputs.values())
    sequences = 1 if context.phase == "prefill" else context.rows
    return context.rows if of_tokens else sequences


def _cache_bytes(
    shapes: Shapes, read: Mapping[str, float], capacity: Mapping[str, int], context: Context
) -> float:
    """Decode reads for every sequence. The rows of one prompt share what they read: an entry is
    moved once, however many rows see it."""
    total = 0.0
    for slot, count in read.items():
        if slot not in shapes.caches:
            continue
        entries = count * context.rows
        if context.phase == "prefill":
            entries = min(entries, float(capacity[slot]))
        total += entries * sum(stored_bytes(spec.format, spec.dims) for spec in shapes.caches[slot])
    return total


def _sum(parts: list[_Work]) -> _Work:
    by_bound: dict[str, float] = {}
    for part in parts:
        for bound, seconds in part.by_bound.items():
            by_bound[bound] = by_bound.get(bound, 0.0) + seconds
    return _Work(
        flops=sum(part.flops for part in parts),
        weights=sum(part.weights for part in parts),
        caches=sum(part.caches for part in parts),
        values=sum(part.values for part in parts),
        seconds=sum(part.seconds for part in parts),
        by_bound=by_bound,
    )
