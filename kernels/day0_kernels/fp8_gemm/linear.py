"""y = x W^T + b with an FP8 weight; rows that come in 16 or 32 bits are quantised first."""

import torch
import triton

from day0_kernels.fp8_gemm.gemm import fp8_gemm
from day0_kernels.quant.quantise import quant_tile
from day0_kernels.quant.reference import FP8, TILE


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    y: torch.Tensor,
    x_scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> None:
    """Write `y` [T, N]; see reference.py. One launch with `x_scale`, one more (and scratch) to
    quantise x without, one more for a bias. Raises ValueError as `fp8_gemm`."""
    if x_scale is None:
        rows = torch.empty(x.shape, dtype=FP8, device=x.device)
        shape = (x.shape[0], triton.cdiv(x.shape[1], TILE))
        x_scale = torch.empty(shape, dtype=torch.float32, device=x.device)
        quant_tile(x, rows, x_scale)
        x = rows
    fp8_gemm(x, x_scale, weight, weight_scale, y)
    if bias is not None:
        y.add_(bias)
