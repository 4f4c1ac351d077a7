"""Definition of the RMS norm with what is fused to it; fp32 inside, fp64 if x is fp64."""

import torch

from day0_kernels.basic.reference import rmsnorm
from day0_kernels.common.plain import wide
from day0_kernels.quant.reference import quant_mx, quant_tile

__all__ = ["add_rmsnorm", "rmsnorm", "rmsnorm_mx", "rmsnorm_tile"]


def add_rmsnorm(
    x: torch.Tensor,
    residual: torch.Tensor,
    y: torch.Tensor,
    residual_out: torch.Tensor,
    weight: torch.Tensor | None = None,
    *,
    eps: float,
    group: int = 0,
    zero_centered: bool = False,
    scale: float = 1.0,
) -> None:
    """Write `residual_out` = x + residual, rounded to its dtype, and `y`, the norm of that."""
    _add(x, residual, residual_out)
    rmsnorm(residual_out, y, weight, eps=eps, group=group, zero_centered=zero_centered, scale=scale)


def rmsnorm_tile(
    x: torch.Tensor,
    q: torch.Tensor,
    q_scale: torch.Tensor,
    weight: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    residual_out: torch.Tensor | None = None,
    y: torch.Tensor | None = None,
    *,
    eps: float,
    zero_centered: bool = False,
    scale: float = 1.0,
    power_of_two: bool = False,
) -> None:
    """`quant_tile` of the norm of x [T, D], which is not rounded in between.

    `q` [T, D] FP8, `q_scale` fp32 [T, ceil(D/128)]. With `residual`, the norm is that of
    `residual_out` = x + residual. `y` [T, D], where given, gets the norm itself.
    """
    normed = _normed(x, weight, residual, residual_out, eps, zero_centered, scale)
    quant_tile(normed, q, q_scale, power_of_two=power_of_two)
    if y is not None:
        y.copy_(normed)


def rmsnorm_mx(
    x: torch.Tensor,
    q: torch.Tensor,
    q_scale: torch.Tensor,
    weight: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    residual_out: torch.Tensor | None = None,
    *,
    eps: float,
    zero_centered: bool = False,
    scale: float = 1.0,
    rule: str = "rceil",
) -> None:
    """`quant_mx` of the norm: `q_scale` uint8 [T, ceil(D/32)] holds E8M0 bytes; else as above."""
    normed = _normed(x, weight, residual, residual_out, eps, zero_centered, scale)
    quant_mx(normed, q, q_scale, rule=rule)


def _add(x: torch.Tensor, residual: torch.Tensor, residual_out: torch.Tensor) -> None:
    dtype = wide(x)
    residual_out.copy_((x.to(dtype) + residual.to(dtype)).to(residual_out.dtype))


def _normed(x, weight, residual, residual_out, eps, zero_centered, scale) -> torch.Tensor:
    if residual is not None:
        _add(x, residual, residual_out)
        x = residual_out
    normed = torch.empty(x.shape, dtype=wide(x), device=x.device)
    rmsnorm(x, normed, weight, eps=eps, zero_centered=zero_centered, scale=scale)
    return normed
