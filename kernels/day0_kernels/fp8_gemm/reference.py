"""Definition of the FP8 product with 1 x 128 scales of x and 128 x 128 scales of the weight.

The layout of DeepSeek-V3's FP8 checkpoints (`weight_scale_inv`). M rows, N outputs, K channels.
Computed in fp32, or in fp64 if x is fp64.
"""

import torch

TILE = 128


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
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    n, k = weight.shape
    rows = x_scale.to(dtype).repeat_interleave(TILE, 1)[:, :k]
    blocks = weight_scale.to(dtype).repeat_interleave(TILE, 0).repeat_interleave(TILE, 1)[:n, :k]
    y.copy_((x.to(dtype) * rows) @ (weight.to(dtype) * blocks).mT)
