"""Definition of the RMS norm; fp32 inside, fp64 if x is fp64."""

import torch


def rmsnorm(
    x: torch.Tensor,
    weight: torch.Tensor,
    y: torch.Tensor,
    *,
    eps: float,
    zero_centred: bool = False,
) -> None:
    """Write `y` [T, D]: x / rms(x) times weight [D], or times 1 + weight if `zero_centred`."""
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    wide, gain = x.to(dtype), weight.to(dtype) + (1.0 if zero_centred else 0.0)
    out = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * gain
    y.copy_(out.to(y.dtype))


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
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    residual_out.copy_((x.to(dtype) + residual.to(dtype)).to(residual_out.dtype))
    rmsnorm(residual_out, weight, y, eps=eps, zero_centred=zero_centred)
