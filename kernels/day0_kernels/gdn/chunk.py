"""The parallel part of the prefill: norms, pairs and the triangular system of a chunk.

Letters: BT chunk length, DK/DV head dims, H value heads, SHARE of them per key head, GROUP of them
per program. Results in the layouts of common/scan.py, SCALAR form.
"""

import triton
import triton.language as tl

from day0_kernels.common.activations import LOG2_E, sigmoid
from day0_kernels.common.blocks import (
    MAX_DECAY,
    dot,
    inverse_unit_lower,
    normalised,
    value_unit,
)
from day0_kernels.common.gates import NO_TOKEN, log2_decay
from day0_kernels.common.ragged import locate


@triton.jit
def chunk_kernel(
    q,
    k,
    v,
    decay,
    beta,
    a_log,
    dt_bias,
    cu_seqlens,
    w,
    unit_q,
    unit_k,
    ut,
    mix,
    sums,
    scale,
    stride_q,
    stride_k,
    stride_v,
    stride_decay,
    stride_beta,
    num_sequences,
    first_slot,
    beta_scale,
    H: tl.constexpr,
    SHARE: tl.constexpr,
    GROUP: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    BT: tl.constexpr,
    EXACT: tl.constexpr,
):
    """Grid: chunk slots * H / GROUP; the products of keys and queries are made once per program."""
    DOT: tl.constexpr = tl.float32 if EXACT else tl.float16
    pid = tl.program_id(0).to(tl.int64)
    i_c = pid // (H // GROUP)
    first_head = pid % (H // GROUP) * GROUP
    i_k = first_head // SHARE
    _, _, end, t_0 = locate(i_c + first_slot, cu_seqlens, num_sequences, BT)
    if t_0 >= end:
        return
    o_t = tl.arange(0, BT)
    o_k = tl.arange(0, DK)
    o_v = tl.arange(0, DV)
    row = o_t[:, None]
    col = o_t[None, :]
    m_t = t_0 + o_t < end
    tokens = t_0 + o_t.to(tl.int64)

    p_k = k + tokens[:, None] * stride_k + i_k * DK + o_k[None, :]
    p_q = q + tokens[:, None] * stride_q + i_k * DK + o_k[None, :]
    b_k = normalised(tl.load(p_k, mask=m_t[:, None], other=0.0), DOT)
    b_q = normalised(tl.load(p_q, mask=m_t[:, None], other=0.0), DOT)
    kk = dot(b_k, tl.trans(b_k), EXACT)
    qk = dot(b_q, tl.trans(b_k), EXACT)
    if first_head % SHARE == 0:
        p_unit = (i_c * (H // SHARE) + i_k) * BT * DK + row * DK + o_k[None, :]
        tl.store(unit_q + p_unit, b_q)
        tl.store(unit_k + p_unit, b_k)

    for member in range(GROUP):
        i_h = first_head + member
        at = i_c * H + i_h
        p_v = v + tokens[:, None] * stride_v + i_h * DV + o_v[None, :]
        b_v = tl.load(p_v, mask=m_t[:, None], other=0.0).to(tl.float32)
        rate = tl.exp(tl.load(a_log + i_h).to(tl.float32))
        f = tl.load(decay + tokens * stride_decay + i_h, mask=m_t, other=NO_TOKEN).to(tl.float32)
        f += tl.load(dt_bias + i_h).to(tl.float32)
        g = tl.maximum(log2_decay(f, rate, 0.0, False), -MAX_DECAY * LOG2_E)
        b_beta = tl.load(beta + tokens * stride_beta + i_h, mask=m_t, other=0.0).to(tl.float32)
        b_beta = tl.where(m_t, sigmoid(b_beta) * beta_scale, 0.0)

        # Through memory: a vector that is loaded comes in any layout, one that is summed up would
        # be spread out to whole matrices to change its own.
        p_sums = sums + at * BT + o_t
        tl.store(p_sums, tl.cumsum(g, axis=0))
        tl.debug_barrier()
        total = tl.load(p_sums)
        kept = tl.exp2(tl.minimum(total[:, None] - total[None, :], 0.0))
        p_pairs = at * BT * BT + row * BT + col
        tl.store(mix + p_pairs, tl.where(row >= col, qk * kept, 0.0).to(DOT))
        mixing = tl.where(row > col, kk * kept * b_beta[:, None], 0.0).to(DOT)
        inverse = inverse_unit_lower(mixing, BT, EXACT) * b_beta[None, :]

        past = (inverse * tl.exp2(total)[None, :]).to(DOT)
        tl.store(w + at * BT * DK + row * DK + o_k[None, :], dot(past, b_k, EXACT).to(DOT))
        unit = value_unit(b_v)
        b_u = dot(inverse.to(DOT), (b_v * (1.0 / unit)).to(DOT), EXACT)
        tl.store(ut + at * DV * BT + o_v[None, :] * BT + row, b_u.to(DOT))
        tl.store(scale + at, unit)
