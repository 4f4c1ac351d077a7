"""Cases of latent attention over selected entries: decode, speculation, prefill, FP8 caches."""

from typing import Any

from day0_kernels.case import Pair, Tolerance
from day0_kernels.mla.inputs import case, inputs, work

__all__ = ["CASES", "PAIRS", "TOLERANCE", "inputs", "work"]

TOLERANCE = {"bf16": Tolerance(), "fp32": Tolerance(floor=1e-6)}
_AT = "day0_kernels.sparse_mla"
PAIRS = (
    Pair(name="paged", reference=f"{_AT}.paged:sparse_mla_paged",
         kernel=f"{_AT}.attention:sparse_mla_paged", outputs=("y",)),
    Pair(name="core", reference=f"{_AT}.paged:selected_attention",
         kernel=f"{_AT}.attention:selected_attention", outputs=("mixed",)),
)  # fmt: skip

_TINY: dict[str, Any] = {
    "tags": "interpret", "dtype": "fp32", "nope": 12, "rope": 16, "value": 20, "latent": 32,
    "page": 16, "selected": 24,
}  # fmt: skip
_FP8 = _TINY | {"latent": 128, "fp8": True}
K = 2048
_DECODE = tuple(
    case(f"{kind}-B{batch}-H{heads}", "core", (32768,) * batch, heads, "bench big graph",
         selected=K, fp8=kind == "fp8")
    for kind in ("fp8", "bf16")
    for batch in (1, 32, 128)
    for heads in (64, 128)
)  # fmt: skip
_PREFILL = tuple(
    case(f"{kind}-T4096-H{heads}", "core", (32768,), heads, "bench big", rows=4096, selected=K,
         fp8=kind == "fp8")
    for kind in ("bf16", "fp8")
    for heads in (64, 128)
)  # fmt: skip
CASES = (
    case("small", "paged", (70, 20, 3), 3, rows=2, **_TINY),
    case("sink", "paged", (70, 1), 3, sink=True, **_TINY),
    case("no-rope", "paged", (40, 30), 2, **_TINY | {"rope": 0}),
    case("split", "paged", (300,), 2, **_TINY | {"selected": 200}),
    case("core-rows", "core", (90,), 5, rows=9, **_TINY),
    case("fp8-tiny", "core", (50, 2), 3, **_FP8),
    case("fp8-tiny-no-rope", "core", (50, 20), 3, **_FP8 | {"rope": 0, "latent": 256}),
    case("bf16", "paged", (3000, 2500, 100), 64, selected=K),
    case("fp8", "paged", (3000, 2500, 100), 64, selected=K, fp8=True),
    case("core-bf16", "core", (3000, 100, 1), 128, selected=K, rows=4),
    case("core-bf16-odd", "core", (500, 300), 16, selected=333, rows=2, sink=True),
    case("core-bf16-no-rope", "core", (1500,), 64, rope=0, selected=512, rows=3),
    case("core-fp8", "core", (3000, 100, 1), 128, selected=K, rows=4, fp8=True),
    case("core-fp8-no-rope", "core", (1500,), 64, rope=0, selected=512, rows=200, fp8=True),
    case("core-fp8-sink", "core", (500, 300), 64, selected=333, rows=2, sink=True, fp8=True),
    *_DECODE,
    case("fp8-B32-H128-rows2", "core", (32768,) * 32, 128, "bench big graph", selected=K, rows=2,
         fp8=True),
    *_PREFILL,
)  # fmt: skip
