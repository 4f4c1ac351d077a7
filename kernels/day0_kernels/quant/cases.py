"""Cases of FP8 quantisation: inputs, the named shapes, what is compared and the least work."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work
from day0_kernels.quant.reference import FP8, MX_GROUP, TILE

# An element that lies between two FP8 values to within fp32 rounding may go either way: one step
# of FP8 (6 %) in few elements. tests/kernels/test_quant.py bounds every single element.
TOLERANCE = {
    "bf16": Tolerance(factor=2.0, peak=6.0, floor=1.2e-2),
    "fp32": Tolerance(factor=2.0, peak=6.0, floor=1.2e-2),
}

_AT = "day0_kernels.quant"
PAIRS = (
    Pair(
        name="tile",
        reference=f"{_AT}.reference:quant_tile",
        kernel=f"{_AT}.quantise:quant_tile",
        outputs=("q", "scale"),
    ),
    Pair(
        name="mx",
        reference=f"{_AT}.reference:quant_mx",
        kernel=f"{_AT}.quantise:quant_mx",
        outputs=("q", "scale"),
    ),
)


def _case(name: str, pair: str, tags: str = "", dtype: str = "fp32", *,
          attrs: dict[str, Any] | None = None, **dims: Any) -> Case:  # fmt: skip
    return Case(
        name=name, pair=pair, dtype=dtype, dims=dims, attrs=attrs or {}, tags=tuple(tags.split())
    )


CASES = (
    _case("tile-small", "tile", "interpret", rows=3, channels=256),
    _case("tile-tail", "tile", "interpret", rows=5, channels=144, strided=True),
    _case("tile-power", "tile", "interpret", rows=3, channels=256, attrs={"power_of_two": True}),
    _case("mx-small", "mx", "interpret", rows=3, channels=96),
    _case("mx-floor", "mx", "interpret", rows=3, channels=80, attrs={"rule": "floor"}),
    _case("tile-bf16", "tile", dtype="bf16", rows=300, channels=2304),
    _case("mx-bf16", "mx", dtype="bf16", rows=300, channels=2304),
    _case("mx-floor-bf16", "mx", dtype="bf16", rows=300, channels=576, attrs={"rule": "floor"}),
    *(
        _case(f"{pair}-T{rows}", pair, "bench big graph", "bf16", rows=rows, channels=4096)
        for pair in ("tile", "mx")
        for rows in (128, 8192)
    ),
    *(
        _case(f"mx-index-T{rows // 64}", "mx", "bench big graph", "bf16", rows=rows, channels=128)
        for rows in (128 * 64, 8192 * 64)
    ),
)  # fmt: skip


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`: rows of very different sizes, one of them zero."""
    rows, channels = case.dims["rows"], case.dims["channels"]
    width = channels + (16 if case.dims.get("strided") else 0)
    x = torch.randn(rows, width, generator=generator, device=device)
    x *= torch.exp2(torch.randint(-12, 12, (rows, 1), generator=generator, device=device).float())
    x[rows // 2] = 0.0
    x = x.to(DTYPES[case.dtype])[:, :channels]
    q = torch.full((rows, channels), float("nan"), device=device).to(FP8)
    if case.pair == "mx":
        scale = torch.full((rows, -(-channels // MX_GROUP)), 255, dtype=torch.uint8, device=device)
    else:
        scale = torch.full((rows, -(-channels // TILE)), float("nan"), device=device)
    return {"x": x, "q": q, "scale": scale, **case.attrs}


def work(case: Case) -> Work:
    """Least bytes: x read once, q and the scales written once."""
    rows, channels = case.dims["rows"], case.dims["channels"]
    scales = -(-channels // MX_GROUP) if case.pair == "mx" else 4 * -(-channels // TILE)
    moved = rows * (channels * (DTYPES[case.dtype].itemsize + 1) + scales)
    return Work(bytes=moved, flops=4 * rows * channels)
