"""Gated RMS norm in one pass. Letters: D channels of a head, BD power of two, BR rows, H heads."""

import torch
import triton
import triton.language as tl

from day0_kernels.common.activations import sigmoid
from day0_kernels.common.arguments import check_choice, check_shape
from day0_kernels.gated_rmsnorm.launch import Launch, launch


@triton.jit
def gated_rmsnorm_kernel(
    x,
    gate,
    weight,
    y,
    stride_x,
    stride_gate,
    stride_y,
    num_rows,
    eps,
    H: tl.constexpr,
    D: tl.constexpr,
    BD: tl.constexpr,
    BR: tl.constexpr,
    SILU: tl.constexpr,
):
    """Grid (T * H / BR): a row is one head of one token."""
    rows = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    o_d = tl.arange(0, BD)
    mask = (rows < num_rows)[:, None] & (o_d < D)[None, :]
    token = (rows // H)[:, None]
    channel = (rows % H * D)[:, None] + o_d[None, :]
    b_x = tl.load(x + token * stride_x + channel, mask=mask, other=0.0).to(tl.float32)
    b_gate = tl.load(gate + token * stride_gate + channel, mask=mask, other=0.0).to(tl.float32)
    b_weight = tl.load(weight + o_d, mask=o_d < D, other=0.0).to(tl.float32)
    factor = tl.rsqrt(tl.sum(b_x * b_x, axis=1) / D + eps)
    act = sigmoid(b_gate)
    if SILU:
        act *= b_gate
    out = b_x * factor[:, None] * b_weight[None, :] * act
    tl.store(y + token * stride_y + channel, out.to(y.dtype.element_ty), mask=mask)


def gated_rmsnorm(
    x: torch.Tensor,
    gate: torch.Tensor,
    weight: torch.Tensor,
    y: torch.Tensor,
    *,
    eps: float,
    activation: str,
) -> None:
    """Write `y` [T, n*d], d = len(weight); y may be x or gate. Allocates nothing.

    Raises ValueError for a wrong shape or activation.
    """
    run(x, gate, weight, y, eps=eps, activation=activation, config=None)


def run(x, gate, weight, y, *, eps: float, activation: str, config: Launch | None) -> None:
    """Check, choose and start the kernel; the sweep passes its own `config`."""
    check_choice("activation", activation, ("sigmoid", "silu"))
    (tokens, width), head_dim = x.shape, weight.shape[0]
    if width % head_dim:
        raise ValueError(f"x must have a multiple of {head_dim} channels (weight), got {width}")
    check_shape("x", x, "T, n*d", (tokens, width))
    check_shape("gate", gate, "T, n*d", (tokens, width))
    check_shape("y", y, "T, n*d", (tokens, width))
    num_rows = tokens * width // head_dim
    if num_rows == 0:
        return
    config = config or launch(num_rows=num_rows, head_dim=head_dim)
    gated_rmsnorm_kernel[(triton.cdiv(num_rows, config.rows),)](
        x, gate, weight, y, x.stride(0), gate.stride(0), y.stride(0), num_rows, eps,
        H=width // head_dim, D=head_dim, BD=triton.next_power_of_2(head_dim), BR=config.rows,
        SILU=activation == "silu", num_warps=config.num_warps,
    )  # fmt: skip
