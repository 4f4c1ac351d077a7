"""Batch x input x output lengths: what is measured, how often, and how figures are put together."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Any

from day0.errors import Day0Error
from day0.runtime.metrics import Timing, summary

# One for a CPU, where the definitions are slow, and one that fills a GPU step by step.
DEFAULT = {
    "cpu": "batch=1,4;input=16,48;output=8",
    "cuda": "batch=1,8,32,128;input=128,1024;output=64",
}
WARM_UP, REPEATS = 1, 3
_AXES = ("batch", "input", "output")
# What a point reports: a median over repeats of the figures of runtime.metrics.
FIGURES = (
    "median_ttft_ms", "p90_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "p90_tpot_ms", "p99_tpot_ms",
    "median_itl_ms", "p99_itl_ms", "median_e2el_ms", "request_throughput", "output_throughput",
    "total_token_throughput", "peak_output_throughput",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """`batch` requests of `input` prompt tokens and `output` new ones."""

    batch: int
    input: int
    output: int

    @property
    def name(self) -> str:
        return f"b{self.batch}-i{self.input}-o{self.output}"

    @property
    def tokens(self) -> int:
        """What the caches hold at most."""
        return self.batch * (self.input + self.output)


def grid_called(text: str) -> tuple[Point, ...]:
    """ "batch=1,8;input=128,1024;output=64": every combination, smallest first."""
    found: dict[str, list[int]] = {}
    for part in text.split(";"):
        name, _, values = part.partition("=")
        fine = re.fullmatch(r"[0-9]+(,[0-9]+)*", values.strip())
        numbers = sorted({int(value) for value in values.split(",")}) if fine else [0]
        if name.strip() not in _AXES or name.strip() in found or numbers[0] < 1:
            raise Day0Error(
                f"--grid is {text!r}; it must give whole numbers for {', '.join(_AXES)}",
                hint='day0 validate MODEL --grid "batch=1,8;input=128,1024;output=64"',
            )
        found[name.strip()] = numbers
    missing = [axis for axis in _AXES if axis not in found]
    if missing:
        raise Day0Error(
            f"--grid is {text!r}; {' and '.join(missing)} is missing",
            hint='day0 validate MODEL --grid "batch=1,8;input=128,1024;output=64"',
        )
    return tuple(
        Point(batch=batch, input=length, output=new)
        for length, new, batch in product(found["input"], found["output"], found["batch"])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A point's figures: per repeat as runtime.metrics gives them, their medians and spreads.
    `peak_memory_bytes` of all repeats, None where the device does not tell."""

    point: Point
    repeats: tuple[Mapping[str, Any], ...]
    medians: Mapping[str, float | None]
    spreads: Mapping[str, float | None]
    peak_memory_bytes: int | None = None

    def row(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "point": self.point.name,
            "batch": self.point.batch,
            "input": self.point.input,
            "output": self.point.output,
            "failed": sum(int(repeat["failed"]) for repeat in self.repeats),
            "figures": dict(self.medians),
            "spreads": dict(self.spreads),
            "peak_memory_bytes": self.peak_memory_bytes,
        }


Run = Callable[[Point, int], tuple[Sequence[Timing], float]]  # point, seed -> timings, seconds


def measure(
    point: Point,
    run: Run,
    *,
    seed: int = 0,
    warm_up: int = WARM_UP,
    repeats: int = REPEATS,
    peak: Callable[[], int | None] = lambda: None,
) -> Measured:
    """Run a point `warm_up` times for nothing and `repeats` times for its figures. Every run draws
    prompts of its own: a prefix seen before would flatter the TTFT."""
    for number in range(warm_up):
        run(point, seed + number)
    found = []
    for number in range(repeats):
        timings, duration = run(point, seed + warm_up + number)
        found.append(summary(timings, duration=duration))
    medians, spreads = {}, {}
    for name in FIGURES:
        values = [one[name] for one in found if one[name] is not None]
        medians[name] = median(values) if values else None
        middle = medians[name]
        spreads[name] = (max(values) - min(values)) / middle if values and middle else None
    return Measured(
        point=point,
        repeats=tuple(found),
        medians=medians,
        spreads=spreads,
        peak_memory_bytes=peak(),
    )
