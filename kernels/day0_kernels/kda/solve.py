"""Second step of the prefill: the triangular system of a chunk, one program per chunk and head.

Letters: BT chunk length, DK/DV head dims, H heads. In place `w` [BT, DK] becomes the part of the
deltas that the state answers for; `ut` [DV, BT] is the part of the values, in units of `scale`.
"""

import triton
import triton.language as tl

from day0_kernels.common.activations import sigmoid
from day0_kernels.common.ragged import locate
from day0_kernels.kda.chunk import dot

# Values are stored in units of a power of two per chunk, at most 2^4 in size: fp16 then resolves
# 2^-18 of the largest value and a state may exceed the values 2,000 times.
HEADROOM = tl.constexpr(16.0)


@triton.jit
def power_of_two_above(x):
    """Smallest power of two that exceeds the positive x, at least 2^-60, from the bits of x."""
    bits = tl.maximum(x, 2.0**-61).to(tl.int32, bitcast=True) & 0x7F800000
    return bits.to(tl.float32, bitcast=True) * 2.0


@triton.jit
def merged_inverse(inverse, mixing, HALF: tl.constexpr, BT: tl.constexpr, EXACT: tl.constexpr):
    """Inverses of diagonal blocks of 2 HALF rows from those of HALF rows."""
    DOT: tl.constexpr = tl.float32 if EXACT else tl.float16
    apart = tl.arange(0, BT)[:, None] ^ tl.arange(0, BT)[None, :]
    # rows and columns in the two halves of one block; `mixing` is lower, so rows in the later half
    below = tl.where((apart >= HALF) & (apart < 2 * HALF), mixing, 0.0).to(DOT)
    small = inverse.to(DOT)
    return inverse - dot(dot(small, below, EXACT).to(DOT), small, EXACT)


@triton.jit
def inverse_unit_lower(mixing, BT: tl.constexpr, EXACT: tl.constexpr):
    """(I + mixing)^-1 for strictly lower `mixing`, by doubling exact block inverses.

    Every intermediate is a true inverse of a diagonal block, so its entries stay bounded by 1 (a
    product of contractions); a power series would not.
    """
    apart = tl.arange(0, BT)[:, None] ^ tl.arange(0, BT)[None, :]
    inverse = tl.where(apart == 0, 1.0, tl.where(apart == 1, -mixing, 0.0))
    LEVELS: tl.constexpr = 3 if BT == 16 else (4 if BT == 32 else 5)
    for level in tl.static_range(0, LEVELS):
        inverse = merged_inverse(inverse, mixing, 2 << level, BT, EXACT)
    return inverse


@triton.jit
def solve_kernel(
    v,
    beta,
    cu_seqlens,
    w,
    mixing,
    ut,
    scale,
    stride_v,
    stride_beta,
    num_sequences,
    first_slot,
    H: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    BT: tl.constexpr,
    EXACT: tl.constexpr,
):
    DOT: tl.constexpr = tl.float32 if EXACT else tl.float16
    pid = tl.program_id(0).to(tl.int64)
    i_h = pid % H
    _, _, end, t_0 = locate(pid // H + first_slot, cu_seqlens, num_sequences, BT)
    if t_0 >= end:
        return
    o_t = tl.arange(0, BT)
    o_k = tl.arange(0, DK)
    o_v = tl.arange(0, DV)
    row = o_t[:, None]
    m_t = t_0 + o_t < end
    tokens = t_0 + o_t.to(tl.int64)

    b_mixing = tl.load(mixing + pid * BT * BT + row * BT + o_t[None, :]).to(tl.float32)
    b_beta = sigmoid(tl.load(beta + tokens * stride_beta + i_h, mask=m_t, other=0.0).to(tl.float32))
    p_w = w + pid * BT * DK + row * DK + o_k[None, :]
    b_w = tl.load(p_w)
    p_v = v + tokens[:, None] * stride_v + i_h * DV + o_v[None, :]
    b_v = tl.load(p_v, mask=m_t[:, None], other=0.0)
    inverse = (inverse_unit_lower(b_mixing, BT, EXACT) * b_beta[None, :]).to(DOT)

    tl.store(p_w, dot(inverse, b_w, EXACT).to(DOT))
    b_v = b_v.to(tl.float32)
    unit = power_of_two_above(tl.max(tl.max(tl.abs(b_v), axis=1), axis=0)) / HEADROOM
    b_u = dot(inverse, (b_v * (1.0 / unit)).to(DOT), EXACT)
    tl.store(ut + pid * DV * BT + o_v[None, :] * BT + row, b_u.to(DOT))
    tl.store(scale + pid, unit)
