"""Cases of the gated RMS norm."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work

TOLERANCE = {"bf16": Tolerance(), "fp32": Tolerance(floor=1e-6)}

_AT = "day0_kernels.gated_rmsnorm"
PAIRS = (
    Pair(
        name="norm",
        reference=f"{_AT}.reference:gated_rmsnorm",
        kernel=f"{_AT}.kernel:gated_rmsnorm",
        outputs=("y",),
    ),
)


def _case(name: str, tokens: int, heads: int, head_dim: int, tags: str = "", dtype: str = "bf16",
          activation: str = "sigmoid", pad: int = 0) -> Case:  # fmt: skip
    return Case(
        name=name, pair="norm", dtype=dtype, tags=tuple(tags.split()),
        dims={"tokens": tokens, "heads": heads, "head_dim": head_dim, "pad": pad},
        attrs={"eps": 1e-5, "activation": activation},
    )  # fmt: skip


CASES = (
    _case("one-row", 1, 1, 64, "interpret", "fp32"),
    _case("odd-rows", 7, 3, 128, "interpret", "fp32", "silu"),
    _case("head-96", 5, 2, 96, "interpret", "fp32"),
    _case("strided", 9, 2, 32, "interpret", "fp32", pad=16),
    _case("bf16", 100, 5, 128),
    _case("bf16-silu", 33, 4, 256, activation="silu"),
    _case("bf16-strided", 50, 3, 64, pad=64),
    _case("rows4096", 128, 32, 128, "bench big graph"),
    _case("rows262144", 8192, 32, 128, "bench big"),
    _case("rows1048576", 8192, 128, 128, "bench big"),
)


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`; the output is NaN."""
    dims, dtype = case.dims, DTYPES[case.dtype]
    tokens, width = dims["tokens"], dims["heads"] * dims["head_dim"]

    def draw(*shape: int, kind: torch.dtype = dtype) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float32).to(kind)

    return {
        "x": draw(tokens, width + dims["pad"])[:, :width],
        "gate": draw(tokens, width + dims["pad"])[:, :width],
        "weight": draw(dims["head_dim"], kind=torch.float32) * 0.2 + 1.0,
        "y": torch.full((tokens, width), float("nan"), device=device, dtype=dtype),
        **case.attrs,
    }


def work(case: Case) -> Work:
    """x and gate in, y out."""
    dims = case.dims
    elements = dims["tokens"] * dims["heads"] * dims["head_dim"]
    return Work(bytes=3 * elements * DTYPES[case.dtype].itemsize, flops=8 * elements)
