"""Prefill of the short convolution: a program walks down the rows of a tile, taps in registers.

Letters: C channels, BC channels of a program, BT rows of a tile, K taps (2 to 4).
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.activations import sigmoid
from day0_kernels.common.arguments import check_choice, check_shape
from day0_kernels.common.ragged import locate
from day0_kernels.short_conv.launch import Launch, prefill_launch


@triton.jit
def load_tap(weight, o_c, m_c, tap: tl.constexpr, K: tl.constexpr):
    """Weight of x_{t-3+tap}; taps that a shorter kernel lacks are zero."""
    if tap < 4 - K:
        w = tl.zeros_like(o_c).to(tl.float32)
    else:
        w = tl.load(weight + o_c * K + (tap - (4 - K)), mask=m_c, other=0.0).to(tl.float32)
    return w


@triton.jit
def row_at(x, before, i_t, begin, live, o_c, m_c, stride_x, stride_tail,
           K: tl.constexpr):  # fmt: skip
    """Row `i_t` of x; rows before `begin` come from the tail, or are zero."""
    back = i_t - begin
    p_x = x + i_t * stride_x + o_c
    inside = tl.load(p_x, mask=m_c & (back >= 0), other=0.0).to(tl.float32)
    p_tail = before + (K - 1 + back) * stride_tail + o_c
    before = tl.load(p_tail, mask=m_c & live & (back < 0) & (back >= 1 - K), other=0.0)
    return inside + before.to(tl.float32)


@triton.jit
def activated(y, SILU: tl.constexpr):
    return y * sigmoid(y) if SILU else y


@triton.jit
def prefill_kernel(
    x,
    weight,
    tail,
    y,
    cu_seqlens,
    slot,
    start,
    stride_x,
    stride_slot,
    stride_tail,
    stride_y,
    num_sequences,
    C,
    BC: tl.constexpr,
    BT: tl.constexpr,
    K: tl.constexpr,
    SILU: tl.constexpr,
):
    """Grid (C / BC, tile slots). The tile that holds a sequence's first row reads the old tail and
    writes the new one: nobody else touches the slot."""
    i_s, begin, end, t_0 = locate(tl.program_id(1).to(tl.int64), cu_seqlens, num_sequences, BT)
    if t_0 >= end:
        return
    o_c = (tl.program_id(0) * BC + tl.arange(0, BC)).to(tl.int64)
    m_c = o_c < C
    live = tl.load(start + i_s) > 0
    before = tail + tl.load(slot + i_s).to(tl.int64) * stride_slot
    w_0 = load_tap(weight, o_c, m_c, 0, K)
    w_1 = load_tap(weight, o_c, m_c, 1, K)
    w_2 = load_tap(weight, o_c, m_c, 2, K)
    w_3 = load_tap(weight, o_c, m_c, 3, K)
    r_0 = row_at(x, before, t_0 - 3, begin, live, o_c, m_c, stride_x, stride_tail, K)
    r_1 = row_at(x, before, t_0 - 2, begin, live, o_c, m_c, stride_x, stride_tail, K)
    r_2 = row_at(x, before, t_0 - 1, begin, live, o_c, m_c, stride_x, stride_tail, K)
    if t_0 == begin:
        n_1 = row_at(x, before, end - 3, begin, live, o_c, m_c, stride_x, stride_tail, K)
        n_2 = row_at(x, before, end - 2, begin, live, o_c, m_c, stride_x, stride_tail, K)
        n_3 = row_at(x, before, end - 1, begin, live, o_c, m_c, stride_x, stride_tail, K)
        tl.debug_barrier()
        dtype: tl.constexpr = tail.dtype.element_ty
        tl.store(before + (K - 2) * stride_tail + o_c, n_3.to(dtype), mask=m_c)
        if K > 2:
            tl.store(before + (K - 3) * stride_tail + o_c, n_2.to(dtype), mask=m_c)
        if K > 3:
            tl.store(before + o_c, n_1.to(dtype), mask=m_c)
    p_x = x + t_0 * stride_x + o_c
    p_y = y + t_0 * stride_y + o_c
    out: tl.constexpr = y.dtype.element_ty
    for i in range(0, BT, 4):
        left = end - t_0 - i
        x_0 = tl.load(p_x, mask=m_c & (left > 0), other=0.0).to(tl.float32)
        x_1 = tl.load(p_x + stride_x, mask=m_c & (left > 1), other=0.0).to(tl.float32)
        x_2 = tl.load(p_x + 2 * stride_x, mask=m_c & (left > 2), other=0.0).to(tl.float32)
        x_3 = tl.load(p_x + 3 * stride_x, mask=m_c & (left > 3), other=0.0).to(tl.float32)
        y_0 = activated(w_0 * r_0 + w_1 * r_1 + w_2 * r_2 + w_3 * x_0, SILU)
        y_1 = activated(w_0 * r_1 + w_1 * r_2 + w_2 * x_0 + w_3 * x_1, SILU)
        y_2 = activated(w_0 * r_2 + w_1 * x_0 + w_2 * x_1 + w_3 * x_2, SILU)
        y_3 = activated(w_0 * x_0 + w_1 * x_1 + w_2 * x_2 + w_3 * x_3, SILU)
        tl.store(p_y, y_0.to(out), mask=m_c & (left > 0))
        tl.store(p_y + stride_y, y_1.to(out), mask=m_c & (left > 1))
        tl.store(p_y + 2 * stride_y, y_2.to(out), mask=m_c & (left > 2))
        tl.store(p_y + 3 * stride_y, y_3.to(out), mask=m_c & (left > 3))
        r_0 = x_1
        r_1 = x_2
        r_2 = x_3
        p_x += 4 * stride_x
        p_y += 4 * stride_y


def check(x, weight, tail, y, activation) -> None:
    """Raise ValueError for a wrong shape, number of taps or activation."""
    check_choice("activation", activation, ("silu", "none"))
    tokens, channels = x.shape
    width = weight.shape[-1]
    if not 2 <= width <= 4:
        raise ValueError(f"weight must have 2 to 4 taps, got {width}")
    check_shape("x", x, "T, C", (tokens, channels))
    check_shape("y", y, "T, C", (tokens, channels))
    check_shape("weight", weight, "C, 1, K", (channels, 1, width))
    check_shape("tail", tail[0], "K-1, C", (width - 1, channels))
    if not weight.is_contiguous():
        raise ValueError("weight must be contiguous [C, 1, K]")


def short_conv_prefill(
    x: torch.Tensor,
    weight: torch.Tensor,
    tail: torch.Tensor,
    y: torch.Tensor,
    cu_seqlens: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    activation: str,
) -> None:
    """Write `y` [T, C], which must not overlap x, and update `tail` in place; reference.py.

    Allocates nothing; the grid depends on T and N only.
    """
    run(x, weight, tail, y, cu_seqlens, slot, start, activation, None)


def run(x, weight, tail, y, cu_seqlens, slot, start, activation,
        config: Launch | None) -> None:  # fmt: skip
    """Check, choose and start the kernel; the sweep passes its own `config`."""
    check(x, weight, tail, y, activation)
    (tokens, channels), sequences = x.shape, slot.shape[0]
    if tokens == 0 or sequences == 0:
        return
    config = config or prefill_launch(channels=channels)
    grid = (triton.cdiv(channels, config.block_c), tokens // config.rows + sequences + 1)
    prefill_kernel[grid](
        x, weight, tail, y, cu_seqlens, slot, start, x.stride(0), tail.stride(0),
        tail.stride(1), y.stride(0), sequences, channels, BC=config.block_c, BT=config.rows,
        K=weight.shape[-1], SILU=activation == "silu", num_warps=config.num_warps,
    )  # fmt: skip
