"""Definition of the FP8 product with 1 x 128 scales of x and 128 x 128 scales of the weight.

The layout of DeepSeek-V3's FP8 checkpoints (`weight_scale_inv`). M rows, N outputs, K channels.
Computed in fp32, or in fp64 if x is fp64.
"""

import torch

from day0_kernels.common.plain import wide
from day0_kernels.quant.reference import blocks_of, rows_of, tile_quantised


def fp8_gemm(
    x: torch.Tensor,
    x_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    y: torch.Tensor,
) -> None:
    """Write `y` [M, N] = (x * its scales) (weight * its scales)^T.

    `x` [M, K], `x_scale` [M, ceil(K/128)], `weight` [N, K], `weight_scale` [ceil(N/128),
    ceil(K/128)].
    """
    dtype = wide(x)
    y.copy_(rows_of(x, x_scale, dtype) @ blocks_of(weight, weight_scale, dtype).mT)


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    y: torch.Tensor,
    x_scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> None:
    """Write `y` [T, N] = x W^T + bias: `fp8_gemm` of rows x [T, K] that are FP8 already, with
    `x_scale`, or are quantised here (`quant_tile`). bias [N] in a plain format."""
    dtype = wide(x)
    rows = rows_of(*((x, x_scale) if x_scale is not None else tile_quantised(x)), dtype)
    product = rows @ blocks_of(weight, weight_scale, dtype).mT
    y.copy_(product if bias is None else product + bias.to(dtype))
