"""Cases of latent attention over pages: decode rows, several rows a sequence, FP8 caches."""

from typing import Any

from day0_kernels.case import Pair, Tolerance
from day0_kernels.mla.inputs import case, inputs, work

__all__ = ["CASES", "PAIRS", "TOLERANCE", "inputs", "work"]

TOLERANCE = {"bf16": Tolerance(), "fp32": Tolerance(floor=1e-6)}
_AT = "day0_kernels.mla"
PAIRS = (
    Pair(name="paged", reference=f"{_AT}.paged:mla_paged", kernel=f"{_AT}.decode:mla_paged",
         outputs=("y",)),
    Pair(name="core", reference=f"{_AT}.paged:latent_attention",
         kernel=f"{_AT}.core:latent_attention", outputs=("mixed",)),
)  # fmt: skip

_TINY: dict[str, Any] = {
    "tags": "interpret", "dtype": "fp32", "nope": 12, "rope": 16, "value": 20, "latent": 32,
    "page": 16,
}  # fmt: skip
_BENCH = "bench big graph"
CASES = (
    case("small", "paged", (5, 17, 1, 40), 3, **_TINY),
    case("split", "paged", (300, 130), 2, **_TINY),
    case("no-rope", "paged", (33, 64), 2, **_TINY | {"rope": 0}),
    case("rows", "paged", (40, 9), 5, rows=4, **_TINY),
    case("window", "paged", (40, 9), 2, rows=2, window=7, **_TINY),
    case("sink", "paged", (40, 3), 2, sink=True, **_TINY),
    case("fp8-tiny", "paged", (70, 3), 2, fp8=True, **_TINY | {"latent": 256}),
    case("core-tiny", "core", (40, 131), 3, **_TINY),
    case("bf16", "paged", (1000, 17, 128), 32),
    case("bf16-no-rope", "paged", (1000, 17, 128), 32, rope=0, nope=192),
    case("bf16-heads-128", "paged", (700, 65), 128, rows=2),
    case("fp8", "paged", (1000, 17, 128), 64, fp8=True),
    case("core-bf16", "core", (1000, 17, 128), 64),
    case("core-fp8", "core", (1000, 17, 128), 128, fp8=True, rows=2),
    case("B32-32K", "core", (32768,) * 32, 128, _BENCH),
    case("B1-128K", "core", (131072,), 128, _BENCH),
    case("fp8-B32-32K", "core", (32768,) * 32, 128, _BENCH, fp8=True),
    case("fp8-B1-128K", "core", (131072,), 128, _BENCH, fp8=True),
    case("B32-1K-H32", "paged", (1024,) * 32, 32, _BENCH),
)
