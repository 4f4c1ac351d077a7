"""What a step should cost before anything is run: the hardware's floor, a prediction, and memory.

Flops and bytes are those of the registry (analysis.cost). The floor is the larger of bytes over
bandwidth and flops over rate; values between operators and launches are not in it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import mean

from day0.analysis.cost import Cost, cost_of, totals
from day0.analysis.efficiencies import measured_on, step_s
from day0.analysis.machine import Assumed, Gpu, gpus
from day0.ir import format as formats
from day0.ir.graph import Model
from day0.ir.recipe import STORED, Recipe
from day0.passes.lifetimes import order_of
from day0.passes.lower import Lowered
from day0.registry.family import Context
from day0.runtime.memory import weights_by_layer
from day0.runtime.session import Session
from day0.validate.grid import Point

# The shares of the peak rates that the plans count on, too.
ASSUMED = Assumed()


def device_called(name: str) -> Gpu | None:
    """The row of the plans' table for what torch calls a device, None for one it does not know."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    return next((gpu for key, gpu in gpus().items() if key in words), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Milliseconds of a point: the median TTFT and of one decode step, at best and predicted.
    `basis` says what the predictions stand on."""

    ttft_floor_ms: float
    tpot_floor_ms: float
    ttft_ms: float
    tpot_ms: float
    basis: str


def estimate(
    model: Model,
    recipe: Recipe,
    point: Point,
    device: Gpu,
    *,
    lowered: Mapping[str, Lowered] | None = None,
    chunk: int = ASSUMED.chunk,
) -> Estimate:
    """Of a burst: prompts are prefilled in steps of `chunk` rows, then all decode together. With
    the `lowered` graphs and a device whose kernels were timed, predictions take what benches found;
    else the shares that the plans assume."""
    rows = point.batch * point.input
    middle = point.input + point.output // 2
    contexts = {
        "prefill": Context(phase="prefill", length=point.input, rows=rows),
        "decode": Context(phase="decode", length=middle, rows=point.batch),
    }
    found = totals(model, recipe, contexts)
    # rows of a prompt share what they read: twice what its average row sees is all of it
    counts = {"prefill": (rows, 2 * point.batch), "decode": (point.batch, point.batch)}

    def times(*, reached: bool) -> dict[str, float]:
        return {
            name: seconds(found[name], *count, recipe, device, reached=reached) * 1e3
            for name, count in counts.items()
        }

    floor, likely = times(reached=False), times(reached=True)
    steps, median = steps_to_first(point, chunk)
    ttft_ms, tpot_ms, basis = likely["prefill"] * median / steps, likely["decode"], _assumed()
    known = measured_on(device.name)
    if known is not None and lowered is not None:
        contexts["prefill"] = replace(contexts["prefill"], rows=min(rows, chunk))
        spent = {
            phase: step_s(lowered[phase], recipe, context, known) * 1e3
            for phase, context in contexts.items()
        }
        ttft_ms, tpot_ms, basis = spent["prefill"] * median, spent["decode"], known.source
    return Estimate(
        ttft_floor_ms=floor["prefill"] * median / steps,
        tpot_floor_ms=floor["decode"],
        ttft_ms=ttft_ms,
        tpot_ms=tpot_ms,
        basis=basis,
    )


def _assumed() -> str:
    shares = f"{ASSUMED.bandwidth:.0%} of the bandwidth, {ASSUMED.matrix:.0%} of the matrix rate"
    return f"assumed: {shares}"


def steps_to_first(point: Point, chunk: int) -> tuple[int, float]:
    """Steps of `chunk` rows that a burst of prompts takes, served first come first served, and
    after how many of them the median request has its first token."""
    halves = ((point.batch + 1) // 2, point.batch // 2 + 1)
    return -(-point.batch * point.input // chunk), mean(
        -(-n * point.input // chunk) for n in halves
    )


def seconds(
    cost: Cost, rows: int, reads: int, recipe: Recipe, device: Gpu, *, reached: bool = False
) -> float:
    """Of a step of `rows` rows, `cost` being a row's, which reads the caches of so many rows;
    `reached`: at the shares of benches."""
    bandwidth = device.bandwidth * (ASSUMED.bandwidth if reached else 1.0)
    named = (name for name in recipe.formats.values() if name != STORED)
    narrow = next((name for name in named if formats.get(name).quantised), recipe.plain)
    rate = device.rate(narrow) * (ASSUMED.matrix if reached else 1.0)
    moved = cost.weight_bytes + reads * cost.cache_bytes
    return max(moved / bandwidth, rows * cost.flops / rate)


def by_family(
    model: Model, recipe: Recipe, point: Point, device: Gpu
) -> list[dict[str, float | str]]:
    """Where the floor of a decode step goes: per family its time alone and its share of all."""
    main = model.graphs["main"]
    context = Context(phase="decode", length=point.input + point.output // 2, rows=point.batch)
    sums: dict[str, Cost] = {}
    for op in main.ops:
        sums[op.family] = sums.get(op.family, Cost()) + cost_of(op, main, model, recipe, context)
    times = {
        name: seconds(one, point.batch, point.batch, recipe, device) for name, one in sums.items()
    }
    total = sum(times.values()) or 1.0
    return [
        {
            "family": name,
            "floor_ms": times[name] * 1e3,
            "share": times[name] / total,
            "flops": sums[name].flops * point.batch,
            "bytes": sums[name].weight_bytes + sums[name].cache_bytes * point.batch,
        }
        for name in sorted(times, key=lambda name: -times[name])
        if times[name]
    ]


def memory(session: Session, recipe: Recipe, *, rows: int) -> dict[str, int]:
    """Bytes by what they are for: `weights` as they are held, `caches` as they are made,
    `values` of a step of `rows` rows at its fullest moment."""
    lowered = session.lowered["prefill"]
    caches = sum(
        part.numel() * part.element_size()
        for parts in session.storage.parts.values()
        for part in parts.values()
    )
    return {
        "weights": sum(weights_by_layer(session.lowered.values(), recipe).values()),
        "caches": caches,
        "values": values_bytes(lowered, rows, formats.get(recipe.plain).bytes((1,))),
    }


def values_bytes(lowered: Lowered, rows: int, size: int) -> int:
    """Most bytes of values that are held at once in a step of `rows` rows, dropped after their last
    use as the program does; `size` bytes an element."""
    graph = lowered.graph
    width = {value: graph.values[value].width for op in graph.ops for _, value in op.outputs}
    drops, held, most = order_of(graph).drops, 0, 0
    for number, op in enumerate(graph.ops):
        held -= sum(width[value] for value in drops.get(number, ()) if value in width)
        held += sum(width[value] for _, value in op.outputs)
        most = max(most, held)
    return most * rows * size
