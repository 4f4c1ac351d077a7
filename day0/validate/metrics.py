"""Names of what a report measures, and one measured figure with all that stands beside it.

Formulas are those of day0.runtime.metrics, which `day0 run` uses too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Checklists are held against these names; a grid point's own figure is called NAME@POINT.
METRICS = (
    "ttft_ms", "cold_ttft_ms", "warm_ttft_ms", "tpot_ms", "itl_ms", "e2el_ms",
    "request_throughput", "output_throughput", "total_token_throughput", "peak_output_throughput",
    "load_s", "compile_s", "graph_capture_s", "jit_compiles_after_ready", "peak_memory_bytes",
    "launches_per_layer", "accepted_length",
    "cells_failed", "cells_passed", "kl_bf16", "kl_fp8", "top1_fp8", "index_overlap_fp8",
)  # fmt: skip
UNITS: Mapping[str, str] = {
    "request_throughput": "requests/s",
    "output_throughput": "tokens/s",
    "total_token_throughput": "tokens/s",
    "peak_output_throughput": "tokens/s",
    "peak_memory_bytes": "bytes",
    "kl_bf16": "nats",
    "kl_fp8": "nats",
}
# Larger is better; of all others smaller is.
RISING = ("throughput", "top1", "index_overlap", "cells_passed", "accepted_length")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure. `value`: the median of the repeats (None: not measured, `how` says why);
    `spread`: (largest - smallest) / median of them; `bound`: the most it may be, for a RISING
    figure the least; `predicted` by the plan; `floor`: what the hardware allows at best."""

    name: str
    value: float | None
    how: str = "measured"
    spread: float | None = None
    bound: float | None = None
    predicted: float | None = None
    floor: float | None = None

    @property
    def bare(self) -> str:
        """The name without its grid point."""
        return self.name.partition("@")[0]

    @property
    def unit(self) -> str:
        if self.bare.endswith("_ms"):
            return "ms"
        return UNITS.get(self.bare, "s" if self.bare.endswith("_s") else "")

    @property
    def rises(self) -> bool:
        """Whether larger is better."""
        return any(word in self.bare for word in RISING)

    @property
    def broken(self) -> bool:
        """Whether a bound is stated and missed; a figure that is no number misses every bound."""
        if self.bound is None or self.value is None:
            return False
        return not (self.value >= self.bound if self.rises else self.value <= self.bound)

    def row(self) -> dict[str, Any]:
        """As JSON, with the prediction's error and the share of the floor that was reached."""
        error = share = None
        if self.value is not None and self.predicted:
            error = self.value / self.predicted - 1
        if self.value and self.floor:
            share = self.value / self.floor if self.rises else self.floor / self.value
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "how": self.how,
            "spread": self.spread,
            "bound": self.bound,
            "broken": self.broken,
            "predicted": self.predicted,
            "prediction_error": error,
            "floor": self.floor,
            "share_of_floor": share,
        }
