"""The short convolution of one token inside a fused decode step, with its tail in place.

WIDTH taps; `tail` has the WIDTH - 1 rows before the token, oldest first.
"""

import triton
import triton.language as tl

from day0_kernels.common.activations import sigmoid


@triton.jit
def convolved(x, weight, tail, channels, live, stride_tail, WIDTH: tl.constexpr):
    """SiLU of the causal convolution of one token at `channels`."""
    y = tl.load(x + channels).to(tl.float32)
    y *= tl.load(weight + channels * WIDTH + WIDTH - 1).to(tl.float32)
    for tap in tl.static_range(0, WIDTH - 1):
        older = tl.load(tail + tap * stride_tail + channels, mask=(channels >= 0) & live, other=0.0)
        y += older.to(tl.float32) * tl.load(weight + channels * WIDTH + tap).to(tl.float32)
    return y * sigmoid(y)


@triton.jit
def next_tail(x, tail, channels, live, stride_tail, WIDTH: tl.constexpr):
    """The tail after this token at `channels`, [rows padded to a power of two, channels].

    Several threads may hold one channel: a barrier must stand between this and `store_tail`.
    """
    ROWS: tl.constexpr = 1 if WIDTH == 2 else (2 if WIDTH == 3 else 4)
    o_r = tl.arange(0, ROWS)[:, None]
    p_older = tail + (o_r + 1) * stride_tail + channels[None, :]
    older = tl.load(p_older, mask=(o_r < WIDTH - 2) & live, other=0.0)
    newest = tl.load(x + channels).to(tail.dtype.element_ty)
    return tl.where(o_r == WIDTH - 2, newest[None, :], older)


@triton.jit
def store_tail(moved, tail, channels, stride_tail, WIDTH: tl.constexpr):
    ROWS: tl.constexpr = 1 if WIDTH == 2 else (2 if WIDTH == 3 else 4)
    o_r = tl.arange(0, ROWS)[:, None]
    tl.store(tail + o_r * stride_tail + channels[None, :], moved, mask=o_r < WIDTH - 1)
