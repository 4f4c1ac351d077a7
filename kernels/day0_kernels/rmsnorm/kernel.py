"""RMS norm in one pass. A row of the kernel is one group of one token: what is normed together.

Letters: H groups of a token, D channels of a group, BD power of two that holds them, BR rows.
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.arguments import check_shape
from day0_kernels.rmsnorm.launch import Launch, launch

MAX_WIDTH = 32768


@triton.jit
def rmsnorm_kernel(
    x, residual, weight, y, residual_out, stride_x, stride_residual, stride_y, stride_out,
    num_rows, eps, scale,
    H: tl.constexpr, D: tl.constexpr, BD: tl.constexpr, BR: tl.constexpr, ADD: tl.constexpr,
    WEIGHT: tl.constexpr, ZERO_CENTERED: tl.constexpr,
):  # fmt: skip
    """Grid (T * H / BR). WEIGHT: 0 none, 1 the same for every group, 2 a slice for each."""
    rows = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    o_d = tl.arange(0, BD)
    m_d = (o_d < D)[None, :]
    mask = (rows < num_rows)[:, None] & m_d
    if H == 1:
        token = rows[:, None]
        channel = o_d[None, :]
    else:
        token = (rows // H)[:, None]
        channel = (rows % H * D)[:, None] + o_d[None, :]
    b_x = tl.load(x + token * stride_x + channel, mask=mask, other=0.0).to(tl.float32)
    if ADD:
        p_residual = residual + token * stride_residual + channel
        b_x += tl.load(p_residual, mask=mask, other=0.0).to(tl.float32)
        rounded = b_x.to(residual_out.dtype.element_ty)
        tl.store(residual_out + token * stride_out + channel, rounded, mask=mask)
        b_x = rounded.to(tl.float32)
    out = b_x * (tl.rsqrt(tl.sum(b_x * b_x, axis=1) / D + eps) * scale)[:, None]
    if WEIGHT > 0:
        if WEIGHT == 2:
            gain = tl.load(weight + channel, mask=mask, other=0.0).to(tl.float32)
        else:
            gain = tl.load(weight + o_d[None, :], mask=m_d, other=0.0).to(tl.float32)
        if ZERO_CENTERED:
            gain += 1.0
        out *= gain
    tl.store(y + token * stride_y + channel, out.to(y.dtype.element_ty), mask=mask)


def rmsnorm(
    x: torch.Tensor,
    y: torch.Tensor,
    weight: torch.Tensor | None = None,
    *,
    eps: float,
    group: int = 0,
    zero_centered: bool = False,
    scale: float = 1.0,
) -> None:
    """Write `y` [T, D]; y may be x. See reference.py. Allocates nothing.

    Raises ValueError for a wrong shape.
    """
    run(x, x, y, y, weight, eps, group, zero_centered, scale, False)


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
    """Write `residual_out` = x + residual and `y`, its norm; residual_out may be residual or x."""
    run(x, residual, y, residual_out, weight, eps, group, zero_centered, scale, True)


def run(
    x, residual, y, residual_out, weight, eps, group, zero_centered, scale, add,
    config: Launch | None = None,
) -> None:  # fmt: skip
    """Check, choose and start the kernel; the sweep passes its own `config`."""
    tokens, channels = x.shape
    width = group or channels
    if channels % width:
        raise ValueError(f"x must have a multiple of {width} channels (group), got {channels}")
    if width > MAX_WIDTH:
        raise ValueError(f"x must have at most {MAX_WIDTH} channels in a group, got {width}")
    for name, tensor in (
        ("x", x),
        ("residual", residual),
        ("y", y),
        ("residual_out", residual_out),
    ):
        check_shape(name, tensor, "T, D", (tokens, channels))
    if weight is not None:
        check_shape("weight", weight, "D", (channels if len(weight) == channels else width,))
    num_rows = tokens * channels // width
    if num_rows == 0:
        return
    config = config or launch(num_rows=num_rows, width=width)
    rmsnorm_kernel[(triton.cdiv(num_rows, config.rows),)](
        x, residual, weight, y, residual_out, x.stride(0), residual.stride(0), y.stride(0),
        residual_out.stride(0), num_rows, eps, scale, H=channels // width, D=width,
        BD=triton.next_power_of_2(width), BR=config.rows, ADD=add,
        WEIGHT=0 if weight is None else (1 if len(weight) == width else 2),
        ZERO_CENTERED=zero_centered, num_warps=config.num_warps,
    )  # fmt: skip
