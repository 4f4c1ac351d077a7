"""The short convolution of one token inside a fused decode step, with its tail in place.

WIDTH taps (a power of two); `tail` has the WIDTH - 1 rows before the token, oldest first. The
window [WIDTH, channels] is read once and summed by a reduction: sums of loaded vectors would be
made anew in every layout that they are used in, by every thread that holds a copy.
"""

import triton
import triton.language as tl

from day0_kernels.common.activations import sigmoid


@triton.jit
def window(x, tail, channels, live, stride_tail, WIDTH: tl.constexpr):
    """Tail and token at `channels`, in the tail's dtype."""
    o_w = tl.arange(0, WIDTH)[:, None]
    p_tail = tail + o_w * stride_tail + channels[None, :]
    older = tl.load(p_tail, mask=(o_w < WIDTH - 1) & live, other=0.0)
    newest = tl.load(x + channels).to(tail.dtype.element_ty)
    return tl.where(o_w == WIDTH - 1, newest[None, :], older)


@triton.jit
def taps(weight, channels, WIDTH: tl.constexpr):
    """Weights [WIDTH, channels], fp32."""
    o_w = tl.arange(0, WIDTH)[:, None]
    return tl.load(weight + channels[None, :] * WIDTH + o_w).to(tl.float32)


@triton.jit
def silu(y):
    return y * sigmoid(y)


@triton.jit
def store_tail(rows, tail, channels, stride_tail, WIDTH: tl.constexpr):
    """Drop the window's oldest row. Threads may share a channel and read other rows than they
    write, so a barrier must stand between the loads and this."""
    o_w = tl.arange(0, WIDTH)[:, None]
    tl.store(tail + (o_w - 1) * stride_tail + channels[None, :], rows, mask=o_w > 0)
