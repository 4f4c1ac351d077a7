"""Pieces of the chunked delta rule that its kernels share: products, norms, triangular inverses.

Letters: BT chunk length. EXACT keeps every product in fp32, else operands are fp16.
"""

import triton
import triton.language as tl

L2_EPS = tl.constexpr(1e-6)
# Retention e^-16 = 1.1e-7 is below fp32 resolution of the state, so a prefill bounds the decay of
# one token there: exponents of a whole chunk then stay far inside fp32's range.
MAX_DECAY = tl.constexpr(16.0)
# Values are stored in units of a power of two per chunk, at most 2^4 in size: fp16 then resolves
# 2^-18 of the largest value and a state may exceed the values 2,000 times.
HEADROOM = tl.constexpr(16.0)


@triton.jit
def dot(a, b, EXACT: tl.constexpr):
    if EXACT:
        return tl.dot(a, b, input_precision="ieee")
    else:
        return tl.dot(a, b)


@triton.jit
def normalised(x, DOT: tl.constexpr):
    """Rows divided by their length, in the dot dtype."""
    x = x.to(tl.float32)
    return (x * tl.rsqrt(tl.sum(x * x, axis=1) + L2_EPS)[:, None]).to(DOT)


@triton.jit
def power_of_two_above(x):
    """Smallest power of two that exceeds the positive x, at least 2^-60, from the bits of x."""
    bits = tl.maximum(x, 2.0**-61).to(tl.int32, bitcast=True) & 0x7F800000
    return bits.to(tl.float32, bitcast=True) * 2.0


@triton.jit
def value_unit(x):
    """The unit in which a tile of values fits fp16 with `HEADROOM`."""
    return power_of_two_above(tl.max(tl.max(tl.abs(x), axis=1), axis=0)) / HEADROOM


@triton.jit
def merged_inverse(inverse, mixing, HALF: tl.constexpr, BT: tl.constexpr, EXACT: tl.constexpr):
    """Inverses of diagonal blocks of 2 HALF rows from those of HALF rows."""
    block = tl.arange(0, BT) // HALF
    # rows and columns in the two halves of one block; `mixing` is lower, so rows in the later half
    below = tl.where((block[:, None] ^ block[None, :]) == 1, mixing, 0.0).to(mixing.dtype)
    small = inverse.to(mixing.dtype)
    step = -dot(small, below, EXACT)
    if EXACT:
        return tl.dot(step, small, inverse, input_precision="ieee")
    else:
        return tl.dot(step.to(mixing.dtype), small, inverse)


@triton.jit
def inverse_unit_lower(mixing, BT: tl.constexpr, EXACT: tl.constexpr):
    """(I + mixing)^-1 in fp32 for strictly lower `mixing` [BT, BT] in the dot dtype.

    By doubling exact block inverses: every intermediate is a true inverse of a diagonal block, so
    its entries stay bounded (a product of contractions); a power series would not.
    """
    apart = tl.arange(0, BT)[:, None] ^ tl.arange(0, BT)[None, :]
    inverse = tl.where(apart == 0, 1.0, tl.where(apart == 1, -mixing.to(tl.float32), 0.0))
    LEVELS: tl.constexpr = 3 if BT == 16 else (4 if BT == 32 else 5)
    for level in tl.static_range(0, LEVELS):
        inverse = merged_inverse(inverse, mixing, 2 << level, BT, EXACT)
    return inverse
