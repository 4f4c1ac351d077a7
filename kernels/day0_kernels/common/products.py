"""Products of 16-bit operands with fp32 ones on the matrix units."""

import triton
import triton.language as tl


@triton.jit
def dot_fp32(x, w, acc):
    """acc + x w, x 16-bit, w fp32: w is the sum of three 16-bit parts, whose products are exact in
    fp32, so that nothing is lost but the roundings of the sum."""
    high = w.to(x.dtype)
    rest = w - high.to(tl.float32)
    middle = rest.to(x.dtype)
    low = (rest - middle.to(tl.float32)).to(x.dtype)
    acc = tl.dot(x, low, acc)
    acc = tl.dot(x, middle, acc)
    return tl.dot(x, high, acc)
