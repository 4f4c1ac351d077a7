"""Cases of grouped-query attention over pages: decode, prompts, windows, sinks, caps, FP8."""

from typing import Any

from day0_kernels.case import Pair, Tolerance
from day0_kernels.gqa.inputs import case, inputs, work

__all__ = ["CASES", "PAIRS", "TOLERANCE", "inputs", "work"]

TOLERANCE = {"bf16": Tolerance(), "fp16": Tolerance(), "fp32": Tolerance(floor=1e-6)}
_AT = "day0_kernels.gqa"
PAIRS = (
    Pair(name="paged", reference=f"{_AT}.paged:gqa_paged", kernel=f"{_AT}.attention:gqa_paged",
         outputs=("y",)),
)  # fmt: skip

_TINY: dict[str, Any] = {"tags": "interpret", "dtype": "fp32", "dim": 16}
_GPT_OSS: dict[str, Any] = {"dim": 64, "sink": True}
_BENCH = "bench big graph"
CASES = (
    case("small", (5, 17, 1, 40), (6, 2), **_TINY),
    case("split", (300, 130), (4, 1), **_TINY),
    case("odd-dims", (33, 9), (5, 5), **_TINY | {"dim": 12, "value": 20}),
    case("rows", (40, 9, 70), (6, 3), rows=4, **_TINY),
    case("prompt", (40, 1, 27), (6, 2), rows=0, **_TINY),
    case("chunk", (50,), (2, 1), rows=30, **_TINY),
    case("window", (40, 9, 65), (6, 2), window=7, **_TINY),
    case("prompt-window", (60, 9), (4, 2), rows=45, window=17, **_TINY),
    case("sink", (40, 3), (6, 2), sink=True, rows=2, **_TINY),
    case("softcap", (40, 3), (4, 2), cap=1.5, sink=True, rows=3, **_TINY),
    case("half-prompt", (150, 40), (2, 1), rows=0, **_TINY | {"dtype": "fp16"}),
    case("half", (70, 20), (4, 2), rows=2, **_TINY | {"dtype": "fp16"}),
    case("fp8-tiny", (70, 3), (4, 2), fp8=True, **_TINY),
    case("fp8-tiny-tiles", (40, 3), (2, 1), fp8=True, rows=2, **_TINY | {"dim": 256}),
    case("bf16", (1000, 17, 128), (32, 8)),
    case("bf16-prompt", (700, 33, 128), (32, 8), rows=0),
    case("bf16-chunk", (1000, 300), (32, 8), rows=260),
    case("fp16-prompt", (300, 70), (8, 2), "", "fp16", rows=0),
    case("bf16-gpt-oss", (1000, 17, 128), (64, 8), window=128, **_GPT_OSS),
    case("bf16-gpt-oss-prompt", (700, 33, 300), (64, 8), rows=0, window=128, **_GPT_OSS),
    case("bf16-gpt-oss-full", (700, 33), (64, 8), rows=0, **_GPT_OSS),
    case("bf16-gemma", (900, 40), (16, 8), dim=256, cap=50.0, window=512),
    case("bf16-gemma-prompt", (900, 40), (16, 8), rows=0, dim=256, cap=50.0, window=512),
    case("bf16-odd", (300, 40), (14, 2), rows=0, dim=80, value=96, window=100),
    case("bf16-verify", (700, 33), (40, 8), rows=3),
    case("fp8", (1000, 17, 128), (32, 8), fp8=True),
    case("fp8-prompt", (500, 17), (32, 8), fp8=True, rows=0),
    case("fp8-256", (500, 17), (16, 2), fp8=True, dim=256),
    case("decode-B1-128K", (131072,), (32, 8), _BENCH),
    case("decode-B32-8K", (8192,) * 32, (32, 8), _BENCH),
    case("decode-B128-4K", (4096,) * 128, (32, 8), _BENCH),
    case("decode-B32-8K-H64-4", (8192,) * 32, (64, 4), _BENCH),
    case("decode-gpt-oss-B128", (4096,) * 128, (64, 8), _BENCH, window=128, **_GPT_OSS),
    case("decode-gpt-oss-full-B128", (4096,) * 128, (64, 8), _BENCH, **_GPT_OSS),
    case("decode-gemma-B32-8K", (8192,) * 32, (16, 8), _BENCH, dim=256),
    case("fp8-decode-B1-128K", (131072,), (32, 8), _BENCH, fp8=True),
    case("fp8-decode-B32-8K", (8192,) * 32, (32, 8), _BENCH, fp8=True),
    case("prefill-8K", (8192,), (32, 8), "bench big", rows=0),
    case("prefill-8x1K", (1024,) * 8, (32, 8), "bench big", rows=0),
    case("prefill-2K-of-32K", (32768,), (32, 8), "bench big", rows=2048),
    case("prefill-gpt-oss-8K", (8192,), (64, 8), "bench big", rows=0, **_GPT_OSS),
    case("prefill-gpt-oss-window-8K", (8192,), (64, 8), "bench big", rows=0, window=128,
         **_GPT_OSS),
    case("prefill-gemma-8K", (8192,), (16, 8), "bench big", rows=0, dim=256, cap=50.0),
)  # fmt: skip
