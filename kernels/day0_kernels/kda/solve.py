"""Second step of the prefill: the triangular system of a chunk, one program per chunk and head.

Letters: BT chunk length, DK/DV head dims, H heads. In place `w` [BT, DK] becomes the part of the
deltas that the state answers for; `ut` [DV, BT] is the part of the values, in units of `scale`.
"""

import triton
import triton.language as tl

from day0_kernels.common.activations import sigmoid
from day0_kernels.common.blocks import dot, inverse_unit_lower, value_unit
from day0_kernels.common.ragged import locate


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

    b_mixing = tl.load(mixing + pid * BT * BT + row * BT + o_t[None, :])
    b_beta = sigmoid(tl.load(beta + tokens * stride_beta + i_h, mask=m_t, other=0.0).to(tl.float32))
    p_w = w + pid * BT * DK + row * DK + o_k[None, :]
    b_w = tl.load(p_w)
    p_v = v + tokens[:, None] * stride_v + i_h * DV + o_v[None, :]
    b_v = tl.load(p_v, mask=m_t[:, None], other=0.0)
    inverse = (inverse_unit_lower(b_mixing, BT, EXACT) * b_beta[None, :]).to(DOT)

    tl.store(p_w, dot(inverse, b_w, EXACT).to(DOT))
    b_v = b_v.to(tl.float32)
    unit = value_unit(b_v)
    b_u = dot(inverse, (b_v * (1.0 / unit)).to(DOT), EXACT)
    tl.store(ut + pid * DV * BT + o_v[None, :] * BT + row, b_u.to(DOT))
    tl.store(scale + pid, unit)
