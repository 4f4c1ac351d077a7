"""Decode of the short convolution: one token per sequence, the tail shifted in place.

Letters: C channels, BC channels of a program, BN sequences of a program, K taps (2 to 4).
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.arguments import check_shape
from day0_kernels.short_conv.launch import Launch, decode_launch
from day0_kernels.short_conv.prefill import activated, check, load_tap


@triton.jit
def decode_kernel(
    x,
    weight,
    tail,
    y,
    slot,
    start,
    stride_x,
    stride_slot,
    stride_tail,
    stride_y,
    N,
    C,
    BC: tl.constexpr,
    BN: tl.constexpr,
    K: tl.constexpr,
    SILU: tl.constexpr,
):
    """Grid (C / BC, N / BN)."""
    o_c = (tl.program_id(0) * BC + tl.arange(0, BC)).to(tl.int64)
    m_c = o_c < C
    w_0 = load_tap(weight, o_c, m_c, 0, K)
    w_1 = load_tap(weight, o_c, m_c, 1, K)
    w_2 = load_tap(weight, o_c, m_c, 2, K)
    w_3 = load_tap(weight, o_c, m_c, 3, K)
    for i in tl.static_range(0, BN):
        i_s = tl.program_id(1).to(tl.int64) * BN + i
        here = m_c & (i_s < N)
        live = here & (tl.load(start + i_s, mask=i_s < N, other=0) > 0)
        i_slot = tl.load(slot + i_s, mask=i_s < N, other=0).to(tl.int64)
        newest = tail_last(tail, i_slot, stride_slot, stride_tail, K) + o_c
        new = tl.load(x + i_s * stride_x + o_c, mask=here, other=0.0)
        r_2 = tl.load(newest, mask=live, other=0.0)
        r_1 = tl.load(newest - stride_tail, mask=live & (K > 2), other=0.0)
        r_0 = tl.load(newest - 2 * stride_tail, mask=live & (K > 3), other=0.0)
        out = w_0 * r_0.to(tl.float32) + w_1 * r_1.to(tl.float32) + w_2 * r_2.to(tl.float32)
        out = activated(out + w_3 * new.to(tl.float32), SILU)
        # threads may share a channel: all reads of the tail before any write
        tl.debug_barrier()
        tl.store(newest, new.to(tail.dtype.element_ty), mask=here)
        tl.store(newest - stride_tail, r_2, mask=here & (K > 2))
        tl.store(newest - 2 * stride_tail, r_1, mask=here & (K > 3))
        tl.store(y + i_s * stride_y + o_c, out.to(y.dtype.element_ty), mask=here)


@triton.jit
def tail_last(tail, i_slot, stride_slot, stride_tail, K: tl.constexpr):
    """The newest row of a slot's tail."""
    return tail + i_slot * stride_slot + (K - 2) * stride_tail


def short_conv_decode(
    x: torch.Tensor,
    weight: torch.Tensor,
    tail: torch.Tensor,
    y: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    activation: str,
) -> None:
    """Write `y` [N, C] and shift `tail` [slots, K-1, C] in place; allocates nothing."""
    run(x, weight, tail, y, slot, start, activation, None)


def run(x, weight, tail, y, slot, start, activation, config: Launch | None) -> None:
    """Check, choose and start the kernel; the sweep passes its own `config`."""
    check(x, weight, tail, y, activation)
    sequences, channels = x.shape
    check_shape("slot", slot, "N", (sequences,))
    if sequences == 0:
        return
    config = config or decode_launch(num_sequences=sequences, channels=channels)
    grid = (triton.cdiv(channels, config.block_c), triton.cdiv(sequences, config.rows))
    decode_kernel[grid](
        x, weight, tail, y, slot, start, x.stride(0), tail.stride(0),
        tail.stride(1), y.stride(0), sequences, channels, BC=config.block_c, BN=config.rows,
        K=weight.shape[-1], SILU=activation == "silu", num_warps=config.num_warps,
    )  # fmt: skip
