"""Every figure against an engine that follows a script with a clock of its own."""

import json
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from day0.errors import Day0Error, DoesNotFit
from day0.runtime.metrics import Timing, side_by_side, summary
from day0.runtime.prompts import Job
from day0.runtime.sampling import Sampling
from day0.validate.bounds import SCHEMA, read_baseline, read_bounds
from day0.validate.grid import Point, grid_called, measure
from day0.validate.load import Load, load_called, serve
from day0.validate.metrics import METRICS, Metric

MICROSECOND = 1e-6
START = 7.25  # a clock that does not begin at zero


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Scripted:
    """Request n gives `scripts[n]`: (seconds of the step, tokens in it), ...; None: refused; a
    script that ends early with "lost" never finishes. Steps of requests take turns."""

    clock: Clock
    scripts: tuple
    queue: deque = field(default_factory=deque)
    count: int = 0

    def add(self, prompt: tuple[int, ...], sampling: Sampling) -> SimpleNamespace:
        script = self.scripts[self.count]
        self.count += 1
        if script is None:
            raise DoesNotFit("too long")
        request = SimpleNamespace(number=100 + self.count)
        self.queue.append((request, deque(script)))
        return request

    @property
    def busy(self) -> bool:
        return bool(self.queue)

    def step(self) -> list[SimpleNamespace]:
        request, script = self.queue.popleft()
        part = script.popleft()
        if part == "lost":
            return []
        seconds, tokens = part
        self.clock.now += seconds
        if script:
            self.queue.append((request, script))
        ends = [""] * (tokens - 1) + ["" if script else "length"]
        return [SimpleNamespace(request=request, token=1, finish=end) for end in ends]


def job(length: int) -> Job:
    return Job(prompt=None, ids=(1,) * length, sampling=Sampling())


def served(scripts: tuple, lengths: tuple[int, ...], times: tuple[float, ...] | None = None):
    clock = Clock()
    jobs = [job(length) for length in lengths]
    engine = Scripted(clock, scripts)
    return serve(engine, jobs, times or (0.0,) * len(jobs), clock=clock, sleep=clock.sleep)


def near(value: object, expected: float) -> bool:
    """Milliseconds, to the microsecond."""
    assert isinstance(value, float)
    return abs(value - expected) < MICROSECOND * 1e3 / 2


def test_a_token_every_few_milliseconds() -> None:
    timings, duration = served((((0.5, 1), (0.01, 1), (0.01, 1), (0.012, 1)),), (20,))
    found = summary(timings, duration=duration)
    assert near(found["median_ttft_ms"], 500)
    assert near(found["median_tpot_ms"], 32 / 3)
    assert near(found["median_e2el_ms"], 532)
    assert [round(gap, 3) for gap in timings[0].itl_ms] == [10, 10, 12]
    assert near(found["mean_itl_ms"], 32 / 3)
    assert near(found["median_itl_ms"], 10)
    assert near(found["p90_itl_ms"], 11.6)
    assert near(found["p99_itl_ms"], 11.96)
    assert duration == pytest.approx(0.532, abs=MICROSECOND)
    assert found["output_throughput"] == pytest.approx(4 / 0.532)
    assert found["total_token_throughput"] == pytest.approx(24 / 0.532)
    assert found["request_throughput"] == pytest.approx(1 / 0.532)


def test_several_tokens_in_one_chunk() -> None:
    """Field case 183: chunks at 0, 10 and 20 ms that carry 1, 3 and 3 tokens."""
    timings, duration = served((((0.1, 1), (0.01, 3), (0.01, 3)),), (5,))
    found = summary(timings, duration=duration)
    assert near(found["median_tpot_ms"], 20 / 6)
    assert len(timings[0].itl_ms) == 6
    assert sum(timings[0].itl_ms) == pytest.approx(20)
    assert found["total_output_tokens"] == 7
    assert found["peak_output_throughput"] >= found["output_throughput"]  # type: ignore[operator]


def test_one_token_has_no_tpot() -> None:
    timings, duration = served((((0.25, 1),), ((0.25, 1), (0.002, 1))), (3, 4))
    found = summary(timings, duration=duration)
    assert timings[0].tpot_ms is None
    assert timings[0].itl_ms == ()
    assert near(found["mean_tpot_ms"], 2)
    assert near(found["median_ttft_ms"], 375)
    assert found["total_input_tokens"] == 7


def test_failed_requests_count_in_nothing_else() -> None:
    """One is refused, one is lost halfway."""
    scripts = (((0.1, 1), (0.02, 1)), None, ((0.05, 1), "lost"))
    timings, duration = served(scripts, (3, 9, 4))
    found = summary(timings, duration=duration)
    assert [timing.failed for timing in timings] == [False, True, True]
    assert (found["completed"], found["failed"]) == (1, 2)
    assert found["total_input_tokens"] == 3
    assert found["total_output_tokens"] == 2
    assert near(found["median_ttft_ms"], 100)
    # the lost one's step lies between the two tokens of the first
    assert near(found["median_tpot_ms"], 70)
    assert duration == pytest.approx(0.17, abs=MICROSECOND)


def test_nothing_but_failures() -> None:
    timings, duration = served((None, None), (3, 4))
    found = summary(timings, duration=duration)
    assert (found["completed"], found["failed"]) == (0, 2)
    assert found["output_throughput"] is None
    assert found["median_ttft_ms"] is None


def test_a_request_counts_from_when_it_was_due() -> None:
    """The second is due in the middle of the first one's long step."""
    timings, duration = served((((0.4, 1),), ((0.1, 1),)), (3, 3), times=(0.0, 0.15))
    assert near(timings[0].ttft_ms, 400)
    assert near(timings[1].ttft_ms, 350)
    assert duration == pytest.approx(0.5, abs=MICROSECOND)


def test_an_idle_engine_waits_for_the_next_request() -> None:
    timings, duration = served((((0.1, 1),), ((0.1, 1),)), (3, 3), times=(0.0, 2.0))
    assert near(timings[1].ttft_ms, 100)
    assert duration == pytest.approx(2.1, abs=MICROSECOND)


def test_cold_stands_apart() -> None:
    cold = Timing(sent=0, input_tokens=1, arrivals=((3.0, 1), (3.1, 1)), cold=True)
    warm = [Timing(sent=0, input_tokens=1, arrivals=((0.2, 1), (0.25 + n, 1))) for n in (0, 1, 2)]
    found = side_by_side([cold, *warm])
    assert near(found["cold_ttft_ms"], 3000)
    assert near(found["warm_ttft_ms"], 200)
    assert near(found["warm_tpot_ms"], 1050)


def test_loads(seed: int) -> None:
    assert Load().times(3) == (0, 0, 0)
    assert load_called("fixed:4").times(3) == (0, 0.25, 0.5)
    times = load_called("poisson:5").times(4000, seed)
    gaps = [b - a for a, b in zip(times, times[1:], strict=False)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(0.2, rel=0.1)
    # of an exponential distribution: as wide as its mean
    assert sum((gap - mean) ** 2 for gap in gaps) / len(gaps) == pytest.approx(0.04, rel=0.25)
    assert times == load_called("poisson:5").times(4000, seed)


@pytest.mark.parametrize("text", ["", "poisson", "poisson:0", "poisson:-1", "fixed:x", "steady:3"])
def test_a_wrong_load(text: str) -> None:
    with pytest.raises(Day0Error, match="poisson:RATE") as caught:
        load_called(text)
    assert "--load poisson:4" in caught.value.hint


def test_a_grid_is_every_combination() -> None:
    points = grid_called("batch=8,1;input=128;output=4,2")
    assert [point.name for point in points] == [
        "b1-i128-o2", "b8-i128-o2", "b1-i128-o4", "b8-i128-o4"
    ]  # fmt: skip
    assert points[-1].tokens == 8 * 132


@pytest.mark.parametrize(
    "text", ["", "batch=1", "batch=0;input=1;output=1", "batch=1;input=x;output=1",
             "batch=1;batch=2;input=1;output=1", "batch=1;input=1;output=1;rows=2",
             "batch=\u0663;input=1;output=1"]
)  # fmt: skip
def test_a_wrong_grid(text: str) -> None:
    with pytest.raises(Day0Error, match="--grid") as caught:
        grid_called(text)
    assert "day0 validate" in caught.value.hint


def test_medians_and_spreads_of_repeats() -> None:
    """The first run is for nothing, however slow; the others' medians and spreads count."""
    seconds, seeds = [9.0, 0.1, 0.4, 0.2], []

    def run(point: Point, seed: int) -> tuple[list[Timing], float]:
        seeds.append(seed)
        took = seconds[len(seeds) - 1]
        arrivals = ((took, 1), (took + 0.05, 1))
        return [Timing(sent=0, input_tokens=point.input, arrivals=arrivals)], took + 0.05

    found = measure(Point(batch=1, input=4, output=2), run, seed=5, peak=lambda: 77)
    assert near(found.medians["median_ttft_ms"], 200)
    assert found.spreads["median_ttft_ms"] == pytest.approx(1.5)
    assert near(found.medians["median_tpot_ms"], 50)
    assert seeds == [5, 6, 7, 8]
    assert found.row()["peak_memory_bytes"] == 77


def test_bounds_of_figures() -> None:
    slow = Metric(name="tpot_ms@b1-i8-o8", value=3.0, bound=2.0, predicted=2.5, floor=1.5)
    assert slow.broken
    assert slow.row()["prediction_error"] == pytest.approx(0.2)
    assert slow.row()["share_of_floor"] == pytest.approx(0.5)
    assert slow.unit == "ms"
    assert Metric(name="output_throughput", value=3.0, bound=4.0).broken
    assert not Metric(name="output_throughput", value=5.0, bound=4.0).broken
    assert Metric(name="tpot_ms", value=float("nan"), bound=1.0).broken
    assert not Metric(name="tpot_ms", value=None, bound=1.0).broken
    assert len(set(METRICS)) == len(METRICS)


@pytest.mark.parametrize("value", [".nan", ".inf", "yes", "fast"])
def test_a_bound_that_is_no_number(value: str, tmp_path: Path) -> None:
    path = tmp_path / "bounds.yaml"
    path.write_text(f"tpot_ms: {value}\n")
    with pytest.raises(Day0Error, match="it must be a number"):
        read_bounds(path)


@pytest.mark.parametrize("without", ["model", "environment", "metrics", "cells"])
def test_a_baseline_that_is_cut_short(without: str, tmp_path: Path) -> None:
    whole = {
        "schema": SCHEMA, "model": {"id": "a"}, "recipe": "bf16",
        "environment": {"device_name": "cpu"}, "metrics": [], "cells": [],
    }  # fmt: skip
    path = tmp_path / "report.json"
    path.write_text(json.dumps(whole))
    assert read_baseline(path, model="a", recipe="bf16", device="cpu") == whole
    path.write_text(json.dumps({name: part for name, part in whole.items() if name != without}))
    with pytest.raises(Day0Error, match=f"'{without}'") as caught:
        read_baseline(path, model="a", recipe="bf16", device="cpu")
    assert "--out" in caught.value.hint
