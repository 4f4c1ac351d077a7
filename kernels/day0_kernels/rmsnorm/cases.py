"""Cases of the RMS norm."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work

TOLERANCE = {"bf16": Tolerance(), "fp32": Tolerance(floor=1e-6)}

_AT = "day0_kernels.rmsnorm"
PAIRS = (
    Pair(
        name="norm",
        reference=f"{_AT}.reference:rmsnorm",
        kernel=f"{_AT}.kernel:rmsnorm",
        outputs=("y",),
    ),
    Pair(
        name="add",
        reference=f"{_AT}.reference:add_rmsnorm",
        kernel=f"{_AT}.kernel:add_rmsnorm",
        outputs=("y", "residual_out"),
    ),
)


def _case(name: str, pair: str, tokens: int, width: int, tags: str = "", dtype: str = "bf16",
          zero_centred: bool = False, pad: int = 0) -> Case:  # fmt: skip
    return Case(
        name=name, pair=pair, dtype=dtype, tags=tuple(tags.split()),
        dims={"tokens": tokens, "width": width, "pad": pad},
        attrs={"eps": 1e-6, "zero_centred": zero_centred},
    )  # fmt: skip


CASES = (
    _case("one-row", "norm", 1, 64, "interpret", "fp32"),
    _case("odd-width", "norm", 3, 300, "interpret", "fp32", zero_centred=True, pad=20),
    _case("add-small", "add", 5, 96, "interpret", "fp32"),
    _case("bf16", "norm", 50, 2304),
    _case("bf16-zero-centred", "norm", 50, 7168, zero_centred=True, pad=64),
    _case("add-bf16", "add", 33, 4096),
    _case("T128", "norm", 128, 4096, "bench big graph"),
    _case("T8192", "norm", 8192, 4096, "bench big"),
    _case("add-T128", "add", 128, 4096, "bench big graph"),
    _case("add-T8192", "add", 8192, 4096, "bench big"),
)


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`; outputs are NaN."""
    dims, dtype = case.dims, DTYPES[case.dtype]
    tokens, width = dims["tokens"], dims["width"]

    def draw(*shape: int, kind: torch.dtype = dtype) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float32).to(kind)

    def empty() -> torch.Tensor:
        return torch.full((tokens, width), float("nan"), device=device, dtype=dtype)

    result = {
        "x": draw(tokens, width + dims["pad"])[:, :width],
        "weight": draw(width, kind=torch.float32) * 0.2 + 1.0,
        "y": empty(),
        **case.attrs,
    }
    if case.pair == "add":
        result |= {"residual": draw(tokens, width), "residual_out": empty()}
    return result


def work(case: Case) -> Work:
    """x in and y out, with the add also the residual in and out."""
    elements = case.dims["tokens"] * case.dims["width"]
    moved = elements * DTYPES[case.dtype].itemsize * (4 if case.pair == "add" else 2)
    return Work(bytes=moved, flops=5 * elements)
