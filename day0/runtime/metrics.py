"""Figures of a run from the moments at which tokens came; names and formulas as `vllm bench serve`.

Tokens are counted as ids produced, never by tokenising text again. Several tokens may come at one
moment (a chunk): each counts, and shares the gap before it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

FORMULAS = {
    "ttft_ms": "first token - sent",
    "tpot_ms": "(latency - ttft) / (output tokens - 1)",
    "itl_ms": "gap before each token but the first, shared by the tokens of one moment",
    "e2el_ms": "last token - sent",
    "request_throughput": "completed requests / duration, per second",
    "output_throughput": "output tokens / duration, per second",
    "total_token_throughput": "(input + output tokens) / duration, per second",
    "launches_per_layer": "kernels of a decode step's layers, as implementations declare, / layers",
    "decode_floor_ms": "least time of the mean decode step: each op's bytes or operations at the "
    "H200's measured rates",
    "decode_floor_share": "decode_floor_ms / median tpot_ms, on a GPU",
    "median_verify_step_ms": "a step that checks drafts, from its begin to its tokens",
    "median_decode_step_ms": "a step of one token a sequence, from its begin to its token",
    "verify_floor_ms": "least time of the mean verify step, without what drafts: each op's bytes, "
    "cache entries once a sequence, or operations at the H200's measured rates",
    "verify_floor_share": "verify_floor_ms / median_verify_step_ms, on a GPU",
    "spec_decode_num_drafts": "sequences of verify steps that had drafts",
    "spec_decode_acceptance_length": "1 + accepted tokens / drafts: tokens that a draft's step "
    "gives",
    "accepted_length": "spec_decode_acceptance_length",
    "spec_decode_acceptance_rate": "accepted tokens / draft tokens",
    "spec_decode_per_position_acceptance_rates": "accepted at the position / drafts",
    "prefix_cache_hit_rate": "prompt tokens found in the prefix cache / prompt tokens",
    "prefix_cache_bytes": "pages and states of earlier prefixes, held now",
    "peak_output_throughput": "most output tokens in any window / window, per second; windows of "
    "the duration split into its whole seconds",
}
PERCENTILES = (90, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One request, in seconds of one clock: `sent`, and `arrivals` (moment, tokens) in order.
    `cold`: sent before the process had finished its first request. `failed`: no figure of time."""

    sent: float
    input_tokens: int
    arrivals: tuple[tuple[float, int], ...] = ()
    cold: bool = False
    failed: bool = False

    @property
    def output_tokens(self) -> int:
        return sum(count for _, count in self.arrivals)

    @property
    def ttft_ms(self) -> float | None:
        """Time to the first token."""
        return (self.arrivals[0][0] - self.sent) * 1e3 if self.arrivals else None

    @property
    def e2el_ms(self) -> float | None:
        """Latency: time to the last token."""
        return (self.arrivals[-1][0] - self.sent) * 1e3 if self.arrivals else None

    @property
    def tpot_ms(self) -> float | None:
        """Time per output token after the first; None where there is only one."""
        if self.output_tokens < 2:
            return None
        return (self.arrivals[-1][0] - self.arrivals[0][0]) * 1e3 / (self.output_tokens - 1)

    @property
    def itl_ms(self) -> tuple[float, ...]:
        """Gaps between tokens, output tokens - 1 of them: they sum to latency - ttft. What came
        before the first moment is the TTFT and stands in no list."""
        gaps: list[float] = [0.0] * (self.arrivals[0][1] - 1) if self.arrivals else []
        for (before, _), (at, count) in zip(self.arrivals, self.arrivals[1:], strict=False):
            gaps.extend([(at - before) * 1e3 / count] * count)
        return tuple(gaps)


def percentile(values: Sequence[float], percent: float) -> float:
    """Linear between the two nearest of the sorted values, as numpy's default."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def summary(timings: Sequence[Timing], *, duration: float) -> dict[str, object]:
    """All figures of requests served within `duration` seconds; None where there is nothing to
    take a figure of. Failed requests count in `failed` alone."""
    done = [timing for timing in timings if not timing.failed]
    inputs = sum(timing.input_tokens for timing in done)
    outputs = sum(timing.output_tokens for timing in done)

    def rate(count: int) -> float | None:
        return count / duration if duration > 0 else None

    figures: dict[str, object] = {
        "duration": duration,
        "completed": len(done),
        "failed": len(timings) - len(done),
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": rate(len(done)),
        "output_throughput": rate(outputs),
        "total_token_throughput": rate(inputs + outputs),
        "peak_output_throughput": _peak(done, duration),
        "ttft_ms": [timing.ttft_ms for timing in timings],
        "tpot_ms": [timing.tpot_ms for timing in timings],
        "itl_ms": [list(timing.itl_ms) for timing in timings],
    }
    for name in ("ttft_ms", "tpot_ms", "e2el_ms"):
        values = _values(done, lambda timing, name=name: getattr(timing, name))
        figures |= _spread(name, values)
    figures |= _spread("itl_ms", [gap for timing in done for gap in timing.itl_ms])
    return figures


def side_by_side(timings: Sequence[Timing]) -> dict[str, object]:
    """cold_ and warm_ figures: of the process's first request, and the median of those that were
    sent after it had finished (None where there were none)."""
    done = [timing for timing in timings if not timing.failed]
    cold = next((timing for timing in done if timing.cold), None)
    warm = [timing for timing in done if not timing.cold]
    figures: dict[str, object] = {}
    for name in ("ttft_ms", "tpot_ms"):
        figures[f"cold_{name}"] = None if cold is None else getattr(cold, name)
        values = _values(warm, lambda timing, name=name: getattr(timing, name))
        figures[f"warm_{name}"] = median(values) if values else None
    return figures


def _values(timings: Sequence[Timing], figure: Callable[[Timing], float | None]) -> list[float]:
    return [value for timing in timings if (value := figure(timing)) is not None]


def _spread(name: str, values: Sequence[float]) -> dict[str, object]:
    if not values:
        names = ("mean", "median", *(f"p{percent}" for percent in PERCENTILES))
        return {f"{word}_{name}": None for word in names}
    return {
        f"mean_{name}": sum(values) / len(values),
        f"median_{name}": median(values),
        **{f"p{percent}_{name}": percentile(values, percent) for percent in PERCENTILES},
    }


def _peak(timings: Sequence[Timing], duration: float) -> float | None:
    """Never below the average: windows of this length tile the duration."""
    if duration <= 0:
        return None
    window = duration / max(1, math.floor(duration))
    moments = sorted(moment for timing in timings for moment in timing.arrivals)
    most, inside, first = 0, 0, 0
    for at, count in moments:
        inside += count
        while moments[first][0] < at - window:
            inside -= moments[first][1]
            first += 1
        most = max(most, inside)
    return most / window
