"""What a step should cost before anything is run: the hardware's floor, a prediction, and memory.

Flops and bytes are those of the registry (analysis.cost). The floor is the larger of bytes over
bandwidth and flops over rate; values between operators and launches are not in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from day0.analysis.cost import Cost, cost_of, totals
from day0.ir import format as formats
from day0.ir.graph import Graph, Model
from day0.ir.recipe import Recipe
from day0.passes.lower import Lowered
from day0.registry.family import Context
from day0.runtime.session import Session
from day0.validate.grid import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Bytes per second to its memory, dense operations per second by format, and the shares of
    both that kernels reach in benches, with the source of all this."""

    bandwidth: float
    rates: Mapping[str, float]
    bandwidth_share: float
    rate_share: float
    source: str


# Keyed by a word of the name that torch gives. Shares: see kernels/bench_results.
DEVICES = {
    "H200": Device(
        bandwidth=4.8e12,
        rates={"bf16": 989e12, "fp8": 1979e12, "fp32": 67e12},
        bandwidth_share=0.7,
        rate_share=0.5,
        source="NVIDIA H200 SXM data sheet (141 GB, 4.8 TB/s; dense rates)",
    ),
}


def device_called(name: str) -> Device | None:
    """The figures of a device, None for one that the table does not know."""
    return next((device for word, device in DEVICES.items() if word in name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Milliseconds of a point: of its prefill and of one decode step, at best and predicted."""

    ttft_floor_ms: float
    tpot_floor_ms: float
    ttft_ms: float
    tpot_ms: float


def estimate(model: Model, recipe: Recipe, point: Point, device: Device) -> Estimate:
    """Of a burst: all prompts are prefilled, then all decode together."""
    rows = point.batch * point.input
    middle = point.input + point.output // 2
    contexts = {
        "prefill": Context(phase="prefill", length=point.input, rows=rows),
        "decode": Context(phase="decode", length=middle, rows=point.batch),
    }
    found = totals(model, recipe, contexts)
    floor = {
        name: seconds(found[name], count, recipe, device)
        for name, count in (("prefill", rows), ("decode", point.batch))
    }
    likely = {
        name: seconds(found[name], count, recipe, device, reached=True)
        for name, count in (("prefill", rows), ("decode", point.batch))
    }
    return Estimate(
        ttft_floor_ms=floor["prefill"] * 1e3,
        tpot_floor_ms=floor["decode"] * 1e3,
        ttft_ms=likely["prefill"] * 1e3,
        tpot_ms=likely["decode"] * 1e3,
    )


def seconds(
    cost: Cost, rows: int, recipe: Recipe, device: Device, *, reached: bool = False
) -> float:
    """Of a step of `rows` rows, `cost` being a row's; `reached`: at the shares of benches."""
    bandwidth = device.bandwidth * (device.bandwidth_share if reached else 1.0)
    narrow = any(
        formats.get(name).quantised for name in recipe.formats.values() if name != "stored"
    )
    rate = device.rates[
        "fp8" if narrow else recipe.plain if recipe.plain in device.rates else "bf16"
    ]
    rate *= device.rate_share if reached else 1.0
    moved = cost.weight_bytes + rows * cost.cache_bytes
    return max(moved / bandwidth, rows * cost.flops / rate)


def by_family(
    model: Model, recipe: Recipe, point: Point, device: Device
) -> list[dict[str, float | str]]:
    """Where the floor of a decode step goes: per family its time alone and its share of all."""
    main = model.graphs["main"]
    context = Context(phase="decode", length=point.input + point.output // 2, rows=point.batch)
    sums: dict[str, Cost] = {}
    for op in main.ops:
        sums[op.family] = sums.get(op.family, Cost()) + cost_of(op, main, model, recipe, context)
    times = {name: seconds(one, point.batch, recipe, device) for name, one in sums.items()}
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
    """Bytes by what they are for: `weights` in the formats they run in, `caches` as they are made,
    `values` of a step of `rows` rows at its fullest moment."""
    lowered = session.lowered["prefill"]
    used = {
        name for low in session.lowered.values() for op in low.graph.ops for _, name in op.weights
    }
    weights = 0
    for name in used:
        weight = lowered.weights[name]
        dims = tuple(dim for dim in weight.spec.dims if isinstance(dim, int))
        weights += formats.get(recipe.weight(weight)).bytes(dims)
    caches = sum(
        part.numel() * part.element_size()
        for parts in session.storage.parts.values()
        for part in parts.values()
    )
    return {
        "weights": weights,
        "caches": caches,
        "values": values_bytes(lowered, rows, formats.get(recipe.plain).bytes((1,))),
    }


def values_bytes(lowered: Lowered, rows: int, size: int) -> int:
    """Most bytes of values that are held at once in a step of `rows` rows, dropped after their last
    use as the program does; `size` bytes an element."""
    graph: Graph = lowered.graph
    last: dict[str, int] = {}
    for number, op in enumerate(graph.ops):
        for _, value in (*op.inputs, *op.outputs):
            last[value] = number
    held, most = 0, 0
    for number, op in enumerate(graph.ops):
        held += sum(graph.values[value].width for _, value in op.outputs)
        most = max(most, held)
        gone = {value for _, value in (*op.inputs, *op.outputs) if last[value] == number}
        held -= sum(graph.values[value].width for value in gone - set(graph.inputs))
    return most * rows * size
