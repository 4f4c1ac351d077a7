"""Gated activations in one pass over their rows. Letters: C channels, BC of a program."""

import torch
import triton
import triton.language as tl

from day0_kernels.common.activations import activate, sigmoid
from day0_kernels.common.arguments import check_choice, check_shape
from day0_kernels.common.functions import GATED
from day0_kernels.kda.gates import log1p

ACTIVATIONS = ("sigmoid", "silu", "softplus", "none")
BLOCK = 2048


@triton.jit
def glu_kernel(
    gate, up, y, stride_gate, stride_up, stride_y, C, limit, alpha, beta, linear_beta,
    BC: tl.constexpr, FUNCTION: tl.constexpr, HAS_LIMIT: tl.constexpr, HAS_LINEAR: tl.constexpr,
):  # fmt: skip
    """Grid (T, C / BC)."""
    t = tl.program_id(0).to(tl.int64)
    o_c = tl.program_id(1) * BC + tl.arange(0, BC)
    g = tl.load(gate + t * stride_gate + o_c, mask=o_c < C, other=0.0).to(tl.float32)
    u = tl.load(up + t * stride_up + o_c, mask=o_c < C, other=0.0).to(tl.float32)
    out = activate(g, u, limit, alpha, beta, linear_beta, FUNCTION, HAS_LIMIT, HAS_LINEAR)
    tl.store(y + t * stride_y + o_c, out.to(y.dtype.element_ty), mask=o_c < C)


@triton.jit
def gate_kernel(
    x, gate, y, stride_x, stride_gate, stride_y, C, width,
    BC: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    """Grid (T, C / BC). One gate value for `width` channels."""
    t = tl.program_id(0).to(tl.int64)
    o_c = tl.program_id(1) * BC + tl.arange(0, BC)
    b_x = tl.load(x + t * stride_x + o_c, mask=o_c < C, other=0.0).to(tl.float32)
    g = tl.load(gate + t * stride_gate + o_c // width, mask=o_c < C, other=0.0).to(tl.float32)
    if ACTIVATION == "sigmoid":
        g = sigmoid(g)
    elif ACTIVATION == "silu":
        g *= sigmoid(g)
    elif ACTIVATION == "softplus":
        # as written, e^g overflows; beyond 20 softplus is g to fp32's last bit
        g = tl.where(g > 20.0, g, log1p(tl.exp(tl.minimum(g, 20.0))))
    tl.store(y + t * stride_y + o_c, (b_x * g).to(y.dtype.element_ty), mask=o_c < C)


def glu(
    gate: torch.Tensor,
    up: torch.Tensor,
    y: torch.Tensor,
    *,
    function: str,
    limit: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    linear_beta: float | None = None,
) -> None:
    """Write `y` [T, C]; y may be gate or up, which may be halves of one tensor. See reference.py.

    One launch, nothing allocated. Raises ValueError for a wrong shape, function or a constant that
    it lacks.
    """
    check_choice("function", function, GATED)
    for name, value, owner in (("alpha", alpha, "swigluoai"), ("beta", beta, "situ")):
        if function == owner and value is None:
            raise ValueError(f"{owner} needs {name}")
    tokens, channels = y.shape
    for name, tensor in (("gate", gate), ("up", up), ("y", y)):
        check_shape(name, tensor, "T, C", (tokens, channels))
    if tokens == 0:
        return
    block = min(triton.next_power_of_2(channels), BLOCK)
    glu_kernel[(tokens, triton.cdiv(channels, block))](
        gate, up, y, gate.stride(0), up.stride(0), y.stride(0), channels, limit or 0.0,
        alpha or 0.0, beta or 0.0, linear_beta or 0.0, BC=block, FUNCTION=function,
        HAS_LIMIT=limit is not None, HAS_LINEAR=linear_beta is not None,
        num_warps=max(block // 512, 1),
    )  # fmt: skip


def gate(
    x: torch.Tensor, gate: torch.Tensor, y: torch.Tensor, *, activation: str, num_heads: int = 0
) -> None:
    """Write `y` [T, C]; y may be x, or gate where that has every channel. See reference.py.

    One launch, nothing allocated. Raises ValueError for a wrong shape or activation.
    """
    check_choice("activation", activation, ACTIVATIONS)
    tokens, channels = x.shape
    if num_heads and channels % num_heads:
        raise ValueError(f"x must have a multiple of {num_heads} channels, got {channels}")
    check_shape("x", x, "T, C", (tokens, channels))
    check_shape("gate", gate, "T, C or n", (tokens, num_heads or channels))
    check_shape("y", y, "T, C", (tokens, channels))
    if tokens == 0:
        return
    block = min(triton.next_power_of_2(channels), BLOCK)
    gate_kernel[(tokens, triton.cdiv(channels, block))](
        x, gate, y, x.stride(0), gate.stride(0), y.stride(0), channels,
        channels // num_heads if num_heads else 1, BC=block, ACTIVATION=activation,
        num_warps=max(block // 512, 1),
    )  # fmt: skip
