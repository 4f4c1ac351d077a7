"""Cases of the RMS norm."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work
from day0_kernels.quant.reference import FP8, MX_GROUP, TILE

TOLERANCE = {
    "bf16": Tolerance(),
    "fp32": Tolerance(floor=1e-6),
    # An element between two FP8 values to within fp32 rounding may go either way, see quant/cases.
    "fp8": Tolerance(factor=2.0, peak=6.0, floor=1.2e-2),
}

_AT = "day0_kernels.rmsnorm"


def _pair(name: str, entry: str, module: str, *outputs: str) -> Pair:
    return Pair(
        name=name,
        reference=f"{_AT}.reference:{entry}",
        kernel=f"{_AT}.{module}:{entry}",
        outputs=outputs,
    )


PAIRS = (
    _pair("norm", "rmsnorm", "kernel", "y"),
    _pair("add", "add_rmsnorm", "kernel", "y", "residual_out"),
    _pair("tile", "rmsnorm_tile", "quantised", "q", "q_scale"),
    _pair("mx", "rmsnorm_mx", "quantised", "q", "q_scale"),
    _pair("add_tile", "rmsnorm_tile", "quantised", "q", "q_scale", "residual_out"),
    _pair("add_tile_both", "rmsnorm_tile", "quantised", "q", "q_scale", "residual_out", "y"),
)


def _case(name: str, pair: str, tokens: int, width: int, tags: str = "", dtype: str = "bf16",
          weight: int | None = -1, pad: int = 0, **attrs: Any) -> Case:  # fmt: skip
    """`weight`: its length, -1 for the row's, None for no weight."""
    return Case(
        name=name, pair=pair, dtype=dtype, tags=tuple(tags.split()),
        dims={"tokens": tokens, "width": width, "pad": pad,
              "weight": width if weight == -1 else weight},
        attrs={"eps": 1e-6, **attrs},
    )  # fmt: skip


CASES = (
    _case("one-row", "norm", 1, 64, "interpret", "fp32"),
    _case("odd-width", "norm", 3, 300, "interpret", "fp32", zero_centered=True, pad=20),
    _case("no-weight", "norm", 3, 40, "interpret", "fp32", weight=None, scale=0.25),
    _case("heads", "norm", 7, 5 * 24, "interpret", "fp32", weight=24, group=24, pad=8),
    _case("groups", "norm", 7, 3 * 40, "interpret", "fp32", group=40, zero_centered=True),
    _case("add-small", "add", 5, 96, "interpret", "fp32"),
    _case("add-heads", "add", 5, 96, "interpret", "fp32", weight=32, group=32, scale=2.0),
    _case("tile-small", "tile", 3, 256, "interpret", "fp8"),
    _case("tile-tail", "tile", 3, 144, "interpret", "fp8", zero_centered=True, pad=16),
    _case("tile-power", "tile", 2, 384, "interpret", "fp8", power_of_two=True, scale=3.0),
    _case("add-tile-small", "add_tile", 3, 256, "interpret", "fp8"),
    _case("both-small", "add_tile_both", 3, 144, "interpret", "fp8", pad=16),
    _case("mx-small", "mx", 3, 96, "interpret", "fp8"),
    _case("mx-floor", "mx", 3, 80, "interpret", "fp8", weight=None, rule="floor"),
    _case("bf16", "norm", 50, 2304),
    _case("bf16-zero-centered", "norm", 50, 7168, zero_centered=True, pad=64),
    _case("bf16-heads", "norm", 100, 40 * 128, weight=128, group=128),
    _case("bf16-groups", "norm", 33, 4 * 2048, group=2048),
    _case("add-bf16", "add", 33, 4096),
    _case("tile-bf16", "tile", 300, 2304, "", "fp8"),
    _case("add-tile-bf16", "add_tile", 300, 7168, "", "fp8", zero_centered=True),
    _case("both-bf16", "add_tile_both", 300, 2304, "", "fp8"),
    _case("mx-bf16", "mx", 300, 4096, "", "fp8"),
    _case("T128", "norm", 128, 4096, "bench big graph"),
    _case("T8192", "norm", 8192, 4096, "bench big graph"),
    _case("heads-T8192", "norm", 8192, 32 * 128, "bench big graph", weight=128, group=128),
    _case("add-T128", "add", 128, 4096, "bench big graph"),
    _case("add-T8192", "add", 8192, 4096, "bench big graph"),
    *(
        _case(f"{pair.replace('_', '-')}-T{tokens}", pair, tokens, 4096, "bench big graph", "fp8")
        for pair in ("tile", "mx", "add_tile", "add_tile_both")
        for tokens in (128, 8192)
    ),
)


def row_dtype(case: Case) -> torch.dtype:
    """The dtype of x: with an FP8 output bf16, but fp32 for the interpreter."""
    if case.dtype == "fp8":
        return torch.float32 if "interpret" in case.tags else torch.bfloat16
    return DTYPES[case.dtype]


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`; outputs are NaN."""
    dims, dtype = case.dims, row_dtype(case)
    tokens, width = dims["tokens"], dims["width"]

    def draw(*shape: int, kind: torch.dtype = dtype) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float32).to(kind)

    def empty(*shape: int, kind: torch.dtype = dtype) -> torch.Tensor:
        return torch.full(shape, float("nan"), device=device).to(kind)

    result: dict[str, Any] = {"x": draw(tokens, width + dims["pad"])[:, :width], **case.attrs}
    if dims["weight"]:
        result["weight"] = draw(dims["weight"], kind=torch.float32) * 0.2 + 1.0
    if "add" in case.pair:
        result |= {"residual": draw(tokens, width), "residual_out": empty(tokens, width)}
    if case.pair in ("norm", "add", "add_tile_both"):
        result["y"] = empty(tokens, width)
    if case.pair in ("norm", "add"):
        return result
    result["q"] = empty(tokens, width, kind=FP8)
    if case.pair == "mx":
        shape = (tokens, -(-width // MX_GROUP))
        return {**result, "q_scale": torch.full(shape, 255, dtype=torch.uint8, device=device)}
    return {**result, "q_scale": empty(tokens, -(-width // TILE), kind=torch.float32)}


def work(case: Case) -> Work:
    """x in and y or q with its scales out, with the add also the residual in and out."""
    tokens, width = case.dims["tokens"], case.dims["width"]
    size = row_dtype(case).itemsize
    row = size * width * (3 if "add" in case.pair else 1)
    if case.pair in ("norm", "add", "add_tile_both"):
        row += size * width
    if case.pair not in ("norm", "add"):
        row += width + (-(-width // MX_GROUP) if case.pair == "mx" else 4 * -(-width // TILE))
    return Work(bytes=tokens * row, flops=5 * tokens * width)
