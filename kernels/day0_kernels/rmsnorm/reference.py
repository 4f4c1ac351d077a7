"""Definition of the RMS norm; fp32 inside, fp64 if x is fp64."""

import torch

from day0_kernels.basic.reference import rmsnorm as general
from day0_kernels.common.plain import wide


def rmsnorm(
    x: torch.Tensor,
    weight: torch.Tensor,
    y: torch.Tensor,
    *,
    eps: float,
    zero_centred: bool = False,
) -> None:
    """Write `y` [T, D]: x / rms(x) times weight [D], or times 1 + weight if `zero_centred`."""
    general(x, y, weight, eps=eps, zero_centered=zero_centred)


def add_rmsnorm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    y: torch.Tensor,
    residual_out: torch.Tensor,
    *,
    eps: float,
    zero_centred: bool = False,
) -> None:
    """Write `residual_out` = x + residual, rounded to its dtype, and `y`, the norm of that."""
    dtype = wide(x)
    residual_out.copy_((x.to(dtype) + residual.to(dtype)).to(residual_out.dtype))
    rmsnorm(residual_out, weight, y, eps=eps, zero_centred=zero_centred)
