"""RMS norm, one row per program. Letters: D channels, BD the power of two that holds them."""

import torch
import triton
import triton.language as tl

from day0_kernels.common.arguments import check_shape
from day0_kernels.rmsnorm.launch import num_warps

MAX_WIDTH = 32768


@triton.jit
def rmsnorm_kernel(
    x,
    residual,
    weight,
    y,
    residual_out,
    stride_x,
    stride_residual,
    stride_y,
    stride_out,
    eps,
    D: tl.constexpr,
    BD: tl.constexpr,
    ADD: tl.constexpr,
    ZERO_CENTRED: tl.constexpr,
):
    """Grid (T)."""
    row = tl.program_id(0).to(tl.int64)
    o_d = tl.arange(0, BD)
    mask = o_d < D
    b_x = tl.load(x + row * stride_x + o_d, mask=mask, other=0.0).to(tl.float32)
    if ADD:
        b_x += tl.load(residual + row * stride_residual + o_d, mask=mask, other=0.0).to(tl.float32)
        rounded = b_x.to(residual_out.dtype.element_ty)
        tl.store(residual_out + row * stride_out + o_d, rounded, mask=mask)
        b_x = rounded.to(tl.float32)
    gain = tl.load(weight + o_d, mask=mask, other=0.0).to(tl.float32)
    if ZERO_CENTRED:
        gain += 1.0
    out = b_x * tl.rsqrt(tl.sum(b_x * b_x, axis=0) / D + eps) * gain
    tl.store(y + row * stride_y + o_d, out.to(y.dtype.element_ty), mask=mask)


def rmsnorm(
    x: torch.Tensor,
    weight: torch.Tensor,
    y: torch.Tensor,
    *,
    eps: float,
    zero_centred: bool = False,
) -> None:
    """Write `y` [T, D]; y may be x. Allocates nothing. Raises ValueError for a wrong shape."""
    _launch(x, x, weight, y, y, eps, zero_centred, False)


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
    """Write `residual_out` = x + residual and `y`, its norm; residual_out may be residual or x."""
    _launch(x, residual, weight, y, residual_out, eps, zero_centred, True)


def _launch(x, residual, weight, y, residual_out, eps, zero_centred, add) -> None:
    tokens, width = x.shape
    if width > MAX_WIDTH:
        raise ValueError(f"x must have at most {MAX_WIDTH} channels, got {width}")
    check_shape("x", x, "T, D", (tokens, width))
    check_shape("residual", residual, "T, D", (tokens, width))
    check_shape("weight", weight, "D", (width,))
    check_shape("y", y, "T, D", (tokens, width))
    check_shape("residual_out", residual_out, "T, D", (tokens, width))
    if tokens == 0:
        return
    rmsnorm_kernel[(tokens,)](
        x, residual, weight, y, residual_out, x.stride(0), residual.stride(0), y.stride(0),
        residual_out.stride(0), eps, D=width, BD=triton.next_power_of_2(width), ADD=add,
        ZERO_CENTRED=zero_centred, num_warps=num_warps(width=width),
    )  # fmt: skip
