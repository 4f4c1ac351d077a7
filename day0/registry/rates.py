"""What a GPU does per second, and what a kernel costs before it does anything."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Bytes and operations per second as measured, not as printed on the box. `flops` by the
    narrowest format of an operator's weights ("" for all others). `launch_s`: a kernel inside a
    CUDA graph that has next to nothing to do. `wait_s` by phase: what a kernel that waits for
    another stream starts later than one that follows in its own, inside a graph (decode) or
    launched from the host (prefill)."""

    bytes: float
    flops: Mapping[str, float]
    launch_s: float
    wait_s: Mapping[str, float]


# Bytes, matrix rates and the launch of a tiny kernel in a graph (1.4 us, and a trip to memory):
# measured beside peers on one H200 with torch 2.11. Waits are estimates, not measured yet.
H200 = Rates(
    bytes=4.26e12,
    flops={"": 686e12, "fp8": 1314e12},
    launch_s=2.0e-6,
    wait_s={"decode": 1.0e-6, "verify": 1.0e-6, "prefill": 6.0e-6},
)
