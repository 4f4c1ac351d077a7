"""Second step of a delta rule's prefill: the triangular system of a chunk and head.

Letters: BT chunk length, DK/DV head dims, H heads, SHARE of them per key head, BC columns at a
time. With `mixing` [BT, BT] of keys on keys (times beta, strictly lower), `w` [BT, DK] becomes the
part of the deltas that the state answers for and `ut` [DV, BT] the part of the values, in units of
`scale`.
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
    keys,
    decay,
    w,
    mixing,
    ut,
    scale,
    stride_v,
    stride_beta,
    num_sequences,
    first_slot,
    beta_scale,
    H: tl.constexpr,
    SHARE: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    BT: tl.constexpr,
    BC: tl.constexpr,
    SCALAR: tl.constexpr,
    EXACT: tl.constexpr,
):
    """Grid: chunk slots * H. `keys` are decayed from the chunk's start (they may stand in `w`), or
    SCALAR: bare ones [BT, DK] per key head, with the running sums `decay` [BT] beside them.

    Columns go through in parts of BC: registers decide how many programs run at a time.
    """
    DOT: tl.constexpr = tl.float32 if EXACT else tl.float16
    pid = tl.program_id(0).to(tl.int64)
    i_h = pid % H
    _, _, end, t_0 = locate(pid // H + first_slot, cu_seqlens, num_sequences, BT)
    if t_0 >= end:
        return
    o_t = tl.arange(0, BT)
    o_c = tl.arange(0, BC)
    row = o_t[:, None]
    m_t = t_0 + o_t < end
    tokens = t_0 + o_t.to(tl.int64)

    b_mixing = tl.load(mixing + pid * BT * BT + row * BT + o_t[None, :])
    b_beta = tl.load(beta + tokens * stride_beta + i_h, mask=m_t, other=0.0).to(tl.float32)
    inverse = inverse_unit_lower(b_mixing, BT, EXACT)
    inverse = inverse * (sigmoid(b_beta) * beta_scale)[None, :]
    if SCALAR:
        for_keys = (inverse * tl.exp2(tl.load(decay + pid * BT + o_t))[None, :]).to(DOT)
    else:
        for_keys = inverse.to(DOT)
    inverse = inverse.to(DOT)

    i_k = pid // H * (H // SHARE) + i_h // SHARE
    p_keys = keys + i_k * BT * DK + row * DK + o_c[None, :]
    p_w = w + pid * BT * DK + row * DK + o_c[None, :]
    for c in tl.range(0, DK, BC, num_stages=1):
        tl.store(p_w + c, dot(for_keys, tl.load(p_keys + c), EXACT).to(DOT))
    p_v = v + tokens[:, None] * stride_v + i_h * DV + o_c[None, :]
    largest = tl.zeros((BT, BC), tl.float32)
    for c in tl.static_range(0, DV, BC):
        b_v = tl.load(p_v + c, mask=m_t[:, None], other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(b_v))
    unit = value_unit(largest)
    tl.store(scale + pid, unit)
    p_ut = ut + pid * DV * BT + o_c[None, :] * BT + row
    for c in tl.range(0, DV, BC, num_stages=1):
        b_v = tl.load(p_v + c, mask=m_t[:, None], other=0.0).to(tl.float32)
        b_u = dot(inverse, (b_v * (1.0 / unit)).to(DOT), EXACT)
        tl.store(p_ut + c * BT, b_u.to(DOT))
