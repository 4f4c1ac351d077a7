"""What a GPU does per second, and what a kernel costs before it does anything."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """How an operator's kernels keep to the floor: seconds = `overhead_s` (0: that of
    its launches) + floor / `share`."""

    share: float
    overhead_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Bytes and operations per second as measured, not as printed on the box. `flops` by the
    narrowest format of an operator's weights ("" for all others). `launch_s`: a kernel inside a
    CUDA graph that has next to nothing to do. `wait_s` by phase: what a kernel that waits for
    another stream starts later than one that follows in its own, inside a graph (decode) or
    launched from the host (prefill). `families`: what benches found of a family's kernels by
    (family, phase, narrowest weight format as in `flops`); others take `launch_s` a launch and
    reach the rates."""

    bytes: float
    flops: Mapping[str, float]
    launch_s: float
    wait_s: Mapping[str, float]
    families: Mapping[tuple[str, str, str], Efficiency] = field(default_factory=dict)


# Bytes, matrix rates and the launch of a tiny kernel in a graph (1.4 us, and a trip to memory):
# measured beside peers on one H200 with torch 2.11. Waits are estimates, not measured yet.
H200 = Rates(
    bytes=4.26e12,
    flops={"": 686e12, "fp8": 1314e12},
    launch_s=2.0e-6,
    wait_s={"decode": 1.0e-6, "verify": 1.0e-6, "prefill": 6.0e-6},
)
