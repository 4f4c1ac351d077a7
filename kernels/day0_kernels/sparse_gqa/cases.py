"""Cases of grouped-query attention over selected tokens (Qwen4-Exp) and blocks (MiniMax-M3)."""

from typing import Any

from day0_kernels.case import Pair, Tolerance
from day0_kernels.gqa.inputs import case, inputs, work

__all__ = ["CASES", "PAIRS", "TOLERANCE", "inputs", "work"]

TOLERANCE = {"bf16": Tolerance(), "fp16": Tolerance(), "fp32": Tolerance(floor=1e-6)}
_AT = "day0_kernels.sparse_gqa"
PAIRS = (
    Pair(name="paged", reference=f"{_AT}.paged:sparse_gqa_paged",
         kernel=f"{_AT}.attention:sparse_gqa_paged", outputs=("y",)),
)  # fmt: skip

_TINY: dict[str, Any] = {"tags": "interpret", "dtype": "fp32", "dim": 16}
_BLOCKS: dict[str, Any] = {"selected": 16, "block": 128, "lists": 4}
_BENCH = "bench big graph"
CASES = (
    case("tokens", (70, 20, 3), (6, 2), rows=2, selected=24, **_TINY),
    case("split", (300,), (4, 1), selected=200, **_TINY),
    case("blocks", (70, 20), (4, 2), rows=3, selected=5, block=4, lists=2, **_TINY),
    case("one-list", (40, 9), (4, 4), selected=3, block=3, sink=True, **_TINY),
    case("odd-dims", (40, 9), (5, 5), selected=7, **_TINY | {"dim": 12, "value": 20}),
    case("half", (40, 9), (4, 2), selected=5, block=4, lists=2, **_TINY | {"dtype": "fp16"}),
    case("fp8-tiny", (50, 3), (4, 2), selected=24, fp8=True, **_TINY),
    case("bf16", (3000, 700, 100), (32, 2), selected=2048),
    case("bf16-blocks", (3000, 700, 100), (64, 4), **_BLOCKS),
    case("bf16-rows", (700, 40), (64, 4), rows=30, **_BLOCKS),
    case("bf16-256", (900, 40), (16, 2), dim=256, selected=512, rows=2),
    case("fp8", (3000, 700), (64, 4), fp8=True, **_BLOCKS),
    case("tokens-B1", (32768,), (32, 2), _BENCH, selected=2048),
    case("tokens-B32", (32768,) * 32, (32, 2), _BENCH, selected=2048),
    case("blocks-B1", (32768,), (64, 4), _BENCH, **_BLOCKS),
    case("blocks-B32", (32768,) * 32, (64, 4), _BENCH, **_BLOCKS),
    case("blocks-B128", (16384,) * 128, (64, 4), _BENCH, **_BLOCKS),
    case("fp8-blocks-B128", (16384,) * 128, (64, 4), _BENCH, fp8=True, **_BLOCKS),
    case("tokens-T2048", (32768,), (32, 2), "bench big", rows=2048, selected=2048),
    case("blocks-T2048", (32768,), (64, 4), "bench big", rows=2048, **_BLOCKS),
)
