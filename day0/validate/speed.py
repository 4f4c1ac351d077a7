"""The speed part: a cold request, then the grid, each figure beside its prediction and floor."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from day0.analysis.machine import Gpu
from day0.errors import DoesNotFit
from day0.runtime.api import Loaded, jobs_for
from day0.runtime.kernel_cache import Compiles
from day0.runtime.metrics import Timing, side_by_side
from day0.runtime.prompts import made_up
from day0.runtime.run_json import peak_memory
from day0.runtime.sampling import Sampling
from day0.runtime.session import Sizes
from day0.runtime.step_costs import launches_by_kind, per_layer, planned
from day0.validate import estimate as estimates
from day0.validate.environment import device_name
from day0.validate.grid import Measured, Point, measure
from day0.validate.load import Load, serve
from day0.validate.metrics import Metric

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """`grid` in the order measured; `metrics` with the whole run's first, then every point's;
    `memory` predicted by what it is for; `by_family` where the floor of a decode step goes."""

    grid: tuple[Measured, ...]
    metrics: tuple[Metric, ...]
    memory: dict[str, int]
    by_family: list[dict[str, Any]]
    notes: tuple[str, ...] = ()


def sizes_of(points: Sequence[Point]) -> Sizes:
    """Caches for the largest point."""
    return Sizes(
        tokens=max(point.tokens for point in points),
        sequences=max(point.batch for point in points),
        longest=max(point.input + point.output for point in points),
    )


def fitting(points: Sequence[Point], context: int | None) -> tuple[Point, ...]:
    """Points within the model's context. DoesNotFit names the largest where none is."""
    found = tuple(p for p in points if context is None or p.input + p.output <= context)
    if not found:
        least = min(point.input + point.output for point in points)
        raise DoesNotFit(
            f"the shortest point of --grid holds {least:,} tokens; the model states {context:,}",
            hint=f'day0 validate MODEL --grid "batch=1;input={(context or 4) // 2};output=1"',
        )
    return found


def measured(
    loaded: Loaded,
    points: Sequence[Point],
    *,
    load: Load,
    seed: int,
    repeats: int,
    compiles: Compiles,
    progress: Progress | None = None,
) -> Speed:
    """Run the grid on a loaded model, whose first request is the cold one."""

    def run(point: Point, number: int) -> tuple[Sequence[Timing], float]:
        asks = made_up(
            loaded.opened.model.spec.vocab_size, length=point.input, count=point.batch, seed=number
        )
        sampling = Sampling(max_new_tokens=point.output)
        jobs = jobs_for(loaded.opened, asks, sampling=sampling, ignore_eos=True)
        times = load.times(len(jobs), number)
        return serve(loaded.session.engine(), jobs, times)

    first = Point(batch=1, input=points[0].input, output=points[0].output)
    cold, _ = run(first, seed)
    seed += 1
    compiled_s, grid, late = compiles.seconds, [], 0
    for number, point in enumerate(points):
        if progress is not None:
            progress(number, len(points), point.name)
        run(point, seed)  # with what a new batch size makes anew: graphs and kernels
        seed += 1
        before, compiled_s = compiles.new, compiles.seconds
        _reset(loaded)
        grid.append(
            measure(point, run, seed=seed, repeats=repeats, warm_up=0, peak=lambda: _peak(loaded))
        )
        late += compiles.new - before
        seed += repeats
    return _put_together(loaded, tuple(grid), cold, compiled_s, late)


def _put_together(
    loaded: Loaded, grid: tuple[Measured, ...], cold: Sequence[Timing], compiled_s: float, late: int
) -> Speed:
    opened, session = loaded.opened, loaded.session
    name = device_name(opened.device)
    device = estimates.device_called(name)
    notes = [] if device else [f"no floor and no prediction of time: {name} is not in the table"]
    sides = side_by_side([_as_cold(timing) for timing in cold])
    graphs = session.graphs.capture_s.values() if session.graphs is not None else ()
    step, of = planned(opened)
    rows = min(session.limits.chunk, max(one.point.batch * one.point.input for one in grid))
    foreseen = estimates.memory(session, opened.recipe, rows=rows)
    on_device = opened.device != "cpu"
    if not on_device:
        notes.append("the peak is the process's, all of it, and is not compared with a prediction")
    peaks = [one.peak_memory_bytes for one in grid if one.peak_memory_bytes]
    metrics = [
        Metric(name="cold_ttft_ms", value=_real(sides["cold_ttft_ms"])),
        Metric(name="warm_ttft_ms", value=grid[0].medians["median_ttft_ms"]),
        Metric(name="load_s", value=loaded.load_s),
        Metric(name="compile_s", value=compiled_s),
        Metric(name="graph_capture_s", value=sum(graphs)),
        Metric(name="jit_compiles_after_ready", value=float(late), bound=0.0),
        Metric(
            name="launches_per_layer",
            value=per_layer(launches_by_kind(step, opened.model.spec, opened.recipe)),
            how=f"declared by the implementations of a decode step on {of}",
        ),
        Metric(
            name="peak_memory_bytes",
            value=float(max(peaks)) if peaks else None,
            predicted=float(sum(foreseen.values())) if on_device else None,
        ),
    ]
    best = max(grid, key=lambda one: one.medians["output_throughput"] or 0.0)
    for short, one in (("tpot_ms", grid[0]), ("ttft_ms", grid[0]), ("output_throughput", best)):
        metrics.append(_figure(short, short, one, loaded, device))
    for one in grid:
        for short in ("ttft_ms", "tpot_ms", "e2el_ms", "output_throughput"):
            metrics.append(_figure(f"{short}@{one.point.name}", short, one, loaded, device))
    families = (
        estimates.by_family(opened.model, opened.recipe, grid[0].point, device) if device else []
    )
    return Speed(
        grid=grid,
        metrics=tuple(metrics),
        memory=foreseen,
        by_family=families,
        notes=tuple(notes),
    )


def _figure(name: str, short: str, one: Measured, loaded: Loaded, device: Gpu | None) -> Metric:
    key = short if short.endswith("throughput") else f"median_{short}"
    predicted = floor = None
    how = f"median of {len(one.repeats)} runs of {one.point.name}"
    opened = loaded.opened
    if device is not None:
        found = estimates.estimate(
            opened.model, opened.recipe, one.point, device,
            lowered=opened.lowered, chunk=loaded.session.limits.chunk,
        )  # fmt: skip
        batch = one.point.batch
        predicted, floor = {
            "ttft_ms": (found.ttft_ms, found.ttft_floor_ms),
            "tpot_ms": (found.tpot_ms, found.tpot_floor_ms),
            "output_throughput": (batch / found.tpot_ms * 1e3, batch / found.tpot_floor_ms * 1e3),
        }.get(short, (None, None))
        how += f"; prediction {found.basis}" if predicted is not None else ""
    return Metric(
        name=name,
        value=one.medians[key],
        spread=one.spreads[key],
        predicted=predicted,
        floor=floor,
        how=how,
    )


def _as_cold(timing: Timing) -> Timing:
    return Timing(
        sent=timing.sent, input_tokens=timing.input_tokens, arrivals=timing.arrivals, cold=True,
        failed=timing.failed,
    )  # fmt: skip


def _real(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _reset(loaded: Loaded) -> None:
    if loaded.opened.device != "cpu":
        torch.cuda.reset_peak_memory_stats(loaded.opened.device)


def _peak(loaded: Loaded) -> int | None:
    return peak_memory(loaded.opened.device)[0]
