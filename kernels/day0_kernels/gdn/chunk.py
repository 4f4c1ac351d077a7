"""First step of the prefill: norms and the pairs of a chunk, one program per chunk and key head.

Letters: BT chunk length, DK head dim, H value heads, SHARE of them per key head. Results: per key
head unit_q, unit_k [BT, DK]; per value head mix (queries on keys), mixing (keys on keys, times
beta) [BT, BT], both decayed, and sums [BT], the running sums of the tokens' log2 decays.
"""

import triton
import triton.language as tl

from day0_kernels.common.activations import LOG2_E, sigmoid
from day0_kernels.common.blocks import MAX_DECAY, dot, normalised
from day0_kernels.common.gates import NO_TOKEN, log2_decay
from day0_kernels.common.ragged import locate


@triton.jit
def chunk_kernel(
    q,
    k,
    decay,
    beta,
    a_log,
    dt_bias,
    cu_seqlens,
    unit_q,
    unit_k,
    mix,
    mixing,
    sums,
    stride_q,
    stride_k,
    stride_decay,
    stride_beta,
    num_sequences,
    first_slot,
    beta_scale,
    H: tl.constexpr,
    SHARE: tl.constexpr,
    DK: tl.constexpr,
    BT: tl.constexpr,
    EXACT: tl.constexpr,
):
    """Grid: chunk slots * H / SHARE; the products of keys and queries are made once."""
    DOT: tl.constexpr = tl.float32 if EXACT else tl.float16
    pid = tl.program_id(0).to(tl.int64)
    i_c = pid // (H // SHARE)
    i_k = pid % (H // SHARE)
    _, _, end, t_0 = locate(i_c + first_slot, cu_seqlens, num_sequences, BT)
    if t_0 >= end:
        return
    o_t = tl.arange(0, BT)
    o_k = tl.arange(0, DK)
    row = o_t[:, None]
    col = o_t[None, :]
    m_t = t_0 + o_t < end
    tokens = t_0 + o_t.to(tl.int64)

    p_unit = pid * BT * DK + row * DK + o_k[None, :]
    p_k = k + tokens[:, None] * stride_k + i_k * DK + o_k[None, :]
    p_q = q + tokens[:, None] * stride_q + i_k * DK + o_k[None, :]
    b_k = normalised(tl.load(p_k, mask=m_t[:, None], other=0.0), DOT)
    tl.store(unit_k + p_unit, b_k)
    b_q = normalised(tl.load(p_q, mask=m_t[:, None], other=0.0), DOT)
    tl.store(unit_q + p_unit, b_q)
    kk = dot(b_k, tl.trans(b_k), EXACT)
    qk = dot(b_q, tl.trans(b_k), EXACT)

    for member in tl.range(0, SHARE, num_stages=1):
        i_h = i_k * SHARE + member
        at = i_c * H + i_h
        rate = tl.exp(tl.load(a_log + i_h).to(tl.float32))
        f = tl.load(decay + tokens * stride_decay + i_h, mask=m_t, other=NO_TOKEN).to(tl.float32)
        f += tl.load(dt_bias + i_h).to(tl.float32)
        g = tl.maximum(log2_decay(f, rate, 0.0, False), -MAX_DECAY * LOG2_E)
        # Through memory: a vector that is loaded comes in any layout, one that is summed up would
        # be spread out to whole matrices to change its own.
        p_sums = sums + at * BT + o_t
        tl.store(p_sums, tl.cumsum(g, axis=0))
        tl.debug_barrier()
        total = tl.load(p_sums)
        kept = tl.exp2(tl.minimum(total[:, None] - total[None, :], 0.0))
        b_beta = tl.load(beta + tokens * stride_beta + i_h, mask=m_t, other=0.0).to(tl.float32)
        b_beta = sigmoid(b_beta) * beta_scale
        p_pairs = at * BT * BT + row * BT + col
        tl.store(mix + p_pairs, tl.where(row >= col, qk * kept, 0.0).to(DOT))
        tl.store(mixing + p_pairs, tl.where(row > col, kk * kept * b_beta[:, None], 0.0).to(DOT))
