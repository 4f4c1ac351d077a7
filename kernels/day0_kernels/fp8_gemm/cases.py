"""Cases of the FP8 product: inputs, the named shapes, what is compared and the least work."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work
from day0_kernels.quant.reference import FP8, tile_quantised

TOLERANCE = {
    "bf16": Tolerance(factor=2.0, peak=6.0),
    # the matrix unit keeps fewer bits than fp32 within a step of 128 channels
    "fp32": Tolerance(factor=2.0, peak=6.0, floor=1e-3),
}

PAIRS = (
    Pair(
        name="gemm",
        reference="day0_kernels.fp8_gemm.reference:fp8_gemm",
        kernel="day0_kernels.fp8_gemm.gemm:fp8_gemm",
        outputs=("y",),
    ),
    Pair(
        name="linear",
        reference="day0_kernels.fp8_gemm.reference:linear",
        kernel="day0_kernels.fp8_gemm.linear:linear",
        outputs=("y",),
    ),
)


def _case(name: str, m: int, n: int, k: int, tags: str = "", dtype: str = "bf16",
          pair: str = "gemm", **dims: bool) -> Case:  # fmt: skip
    """Of the pair `linear`: `narrow` rows have their scales already; `bias`."""
    return Case(
        name=name, pair=pair, dtype=dtype, dims={"m": m, "n": n, "k": k, **dims},
        tags=tuple(tags.split()),
    )  # fmt: skip


CASES = (
    _case("one-row", 1, 48, 128, "interpret", "fp32"),
    _case("tails", 21, 80, 176, "interpret", "fp32"),
    _case("middle", 70, 144, 256, "interpret", "fp32"),
    _case("large", 150, 272, 160, "interpret", "fp32"),
    _case("linear-wide", 9, 144, 272, "interpret", "fp32", "linear"),
    _case("linear-bias", 3, 80, 144, "interpret", "fp32", "linear", bias=True),
    _case("linear-narrow", 3, 48, 144, "interpret", "fp32", "linear", narrow=True),
    _case("linear-bf16", 50, 576, 2304, dtype="bf16", pair="linear"),
    _case("linear-bf16-bias", 50, 576, 2304, dtype="bf16", pair="linear", bias=True, narrow=True),
    _case("bf16-few", 5, 576, 2048),
    _case("bf16-100", 100, 576, 2304),
    _case("bf16-300", 300, 2112, 1040),
    _case("bf16-2100", 2100, 2176, 1040),
    _case("8192x8192x8192", 8192, 8192, 8192, "bench big"),
    _case("4096x7168x2048", 4096, 7168, 2048, "bench big"),
    _case("128x12288x4096", 128, 12288, 4096, "bench big graph"),
    _case("32x12288x4096", 32, 12288, 4096, "bench big graph"),
    _case("1x12288x4096", 1, 12288, 4096, "bench big graph"),
)


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`; `y` is NaN."""
    m, n, k = (case.dims[name] for name in "mnk")
    x = torch.randn(m, k, generator=generator, device=device)
    q, scale = tile_quantised(x)
    weight = torch.randn(n, k, generator=generator, device=device).to(FP8)
    blocks = (-(-n // 128), -(-k // 128))
    factors = torch.rand(blocks, generator=generator, device=device) + 0.5
    y = torch.full((m, n), float("nan"), device=device).to(DTYPES[case.dtype])
    given = {"weight": weight, "weight_scale": factors * k**-0.5, "y": y}
    if case.dims.get("bias"):
        given["bias"] = torch.randn(n, generator=generator, device=device).to(y.dtype)
    if case.pair == "linear" and not case.dims.get("narrow"):
        return {"x": x.to(y.dtype), **given}
    return {"x": q.to(FP8), "x_scale": scale, **given}


def work(case: Case) -> Work:
    """Least bytes: x and weight read once, y written once."""
    m, n, k = (case.dims[name] for name in "mnk")
    moved = m * k + n * k + m * n * DTYPES[case.dtype].itemsize
    return Work(bytes=moved, flops=2 * m * n * k, unit="fp8")
