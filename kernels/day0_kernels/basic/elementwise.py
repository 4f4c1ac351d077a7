"""The glue ops that work element by element: one launch each, fp32 inside.

Letters: C channels of a row, BC of them in a program. Grid (T, C / BC).
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.activations import activate, sigmoid, tanh
from day0_kernels.common.arguments import check_choice, check_shape
from day0_kernels.common.functions import FUNCTIONS, GATED
from day0_kernels.common.gates import log1p

BLOCK, NUM_WARPS = 1024, 4


@triton.jit
def apply(x, FUNCTION: tl.constexpr):
    """One of `FUNCTIONS` in common/functions.py."""
    if FUNCTION == "none":
        return x
    elif FUNCTION == "sigmoid":
        return sigmoid(x)
    elif FUNCTION == "softplus":
        # as written, e^x overflows; beyond 20 softplus is x to fp32's last bit
        return tl.where(x > 20.0, x, log1p(tl.exp(tl.minimum(x, 20.0))))
    else:
        return activate(x, 1.0, 0.0, 0.0, 0.0, 0.0, FUNCTION, False, False)


@triton.jit
def place(C: tl.constexpr, BC: tl.constexpr):
    """(row, channels, whether they exist) of this program."""
    channel = tl.program_id(1) * BC + tl.arange(0, BC)
    return tl.program_id(0).to(tl.int64), channel, channel < C


@triton.jit
def glu_kernel(
    gate, up, y, stride_gate, stride_up, stride_y, limit, alpha, beta, linear_beta,
    C: tl.constexpr, BC: tl.constexpr, FUNCTION: tl.constexpr, HAS_LIMIT: tl.constexpr,
    HAS_LINEAR: tl.constexpr,
):  # fmt: skip
    row, channel, mask = place(C, BC)
    g = tl.load(gate + row * stride_gate + channel, mask=mask, other=0.0).to(tl.float32)
    u = tl.load(up + row * stride_up + channel, mask=mask, other=0.0).to(tl.float32)
    out = activate(g, u, limit, alpha, beta, linear_beta, FUNCTION, HAS_LIMIT, HAS_LINEAR)
    tl.store(y + row * stride_y + channel, out.to(y.dtype.element_ty), mask=mask)


@triton.jit
def gate_kernel(
    x, gate, y, stride_x, stride_gate, stride_y,
    C: tl.constexpr, BC: tl.constexpr, SHARED: tl.constexpr, FUNCTION: tl.constexpr,
):  # fmt: skip
    """SHARED channels have one gate value together."""
    row, channel, mask = place(C, BC)
    b_x = tl.load(x + row * stride_x + channel, mask=mask, other=0.0).to(tl.float32)
    g = tl.load(gate + row * stride_gate + channel // SHARED, mask=mask, other=0.0).to(tl.float32)
    out = b_x * apply(g, FUNCTION)
    tl.store(y + row * stride_y + channel, out.to(y.dtype.element_ty), mask=mask)


@triton.jit
def unary_kernel(
    x, y, stride_x, stride_y, scale, cap,
    C: tl.constexpr, BC: tl.constexpr, FUNCTION: tl.constexpr, CAPPED: tl.constexpr,
):  # fmt: skip
    row, channel, mask = place(C, BC)
    out = tl.load(x + row * stride_x + channel, mask=mask, other=0.0).to(tl.float32) * scale
    if CAPPED:
        out = cap * tanh(out / cap)
    tl.store(y + row * stride_y + channel, apply(out, FUNCTION).to(y.dtype.element_ty), mask=mask)


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
    """y [T, C] = function(gate) * up; see reference.py. Raises ValueError for a wrong shape or
    function."""
    check_choice("function", function, GATED)
    check_shape("up", up, "T, C", gate.shape)
    check_shape("y", y, "T, C", gate.shape)
    if grid := _grid(gate):
        glu_kernel[grid](
            gate, up, y, gate.stride(0), up.stride(0), y.stride(0),
            limit or 0.0, alpha or 0.0, beta or 0.0, linear_beta or 0.0,
            C=gate.shape[1], BC=_block(gate), FUNCTION=function, HAS_LIMIT=limit is not None,
            HAS_LINEAR=linear_beta is not None, num_warps=NUM_WARPS,
        )  # fmt: skip


def gate(
    x: torch.Tensor, gate: torch.Tensor, y: torch.Tensor, *, activation: str, num_heads: int = 0
) -> None:
    """y [T, C] = x * activation(gate); gate [T, C] or [T, num_heads]. Raises ValueError for a
    wrong shape or activation."""
    rows, channels = x.shape
    check_choice("activation", activation, tuple(FUNCTIONS))
    check_shape("gate", gate, "T, C or heads", (rows, num_heads or channels))
    check_shape("y", y, "T, C", x.shape)
    if grid := _grid(x):
        gate_kernel[grid](
            x, gate, y, x.stride(0), gate.stride(0), y.stride(0),
            C=channels, BC=_block(x), SHARED=channels // num_heads if num_heads else 1,
            FUNCTION=activation, num_warps=NUM_WARPS,
        )  # fmt: skip


def activation(x: torch.Tensor, y: torch.Tensor, *, function: str) -> None:
    """y = function(x). Raises ValueError for a wrong shape or function."""
    check_choice("function", function, tuple(FUNCTIONS))
    _unary(x, y, 1.0, None, function)


def softcap(
    x: torch.Tensor, y: torch.Tensor, *, cap: float | None = None, scale: float = 1.0
) -> None:
    """y = scale * x, or cap * tanh(scale * x / cap). Raises ValueError for a wrong shape."""
    _unary(x, y, scale, cap, "none")


def _unary(
    x: torch.Tensor, y: torch.Tensor, scale: float, cap: float | None, function: str
) -> None:
    check_shape("y", y, "T, C", x.shape)
    if grid := _grid(x):
        unary_kernel[grid](
            x, y, x.stride(0), y.stride(0), scale, cap or 0.0, C=x.shape[1], BC=_block(x),
            FUNCTION=function, CAPPED=cap is not None, num_warps=NUM_WARPS,
        )  # fmt: skip


def _block(x: torch.Tensor) -> int:
    return min(BLOCK, int(triton.next_power_of_2(x.shape[1])))


def _grid(x: torch.Tensor) -> tuple[int, int] | None:
    """None where there is nothing to do."""
    return (x.shape[0], int(triton.cdiv(x.shape[1], _block(x)))) if x.numel() else None
