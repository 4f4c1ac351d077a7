"""First step of the prefill: gates, norms and the pairs of a chunk, one program per chunk and head.

Letters: BT chunk length, DK head dim, H heads. Layout of the results, per (chunk, head):
w (k decayed from the chunk's start), kg (k decayed to its end), qg [BT, DK], mix (queries on keys)
and mixing (keys on keys, times beta) [BT, BT] in the dot dtype, total (retention) [DK] fp32.
"""

import triton
import triton.language as tl

from day0_kernels.common.activations import LOG2_E, sigmoid
from day0_kernels.common.blocks import MAX_DECAY, dot, normalised
from day0_kernels.common.gates import NO_TOKEN, log2_decay
from day0_kernels.common.ragged import locate


@triton.jit
def masked_sums(signs, g, EXACT: tl.constexpr):
    """signs [BT, BT] (0, 1, -1) times g [BT, DK] in fp32 accuracy, by two fp16 halves of g."""
    if EXACT:
        return tl.dot(signs, g, input_precision="ieee")
    else:
        high = g.to(tl.float16)
        low = (g - high.to(tl.float32)).to(tl.float16)
        signs = signs.to(tl.float16)
        return tl.dot(signs, low, tl.dot(signs, high))


@triton.jit
def chunk_kernel(
    q,
    k,
    gate,
    beta,
    a_log,
    dt_bias,
    cu_seqlens,
    w,
    qg,
    kg,
    mix,
    mixing,
    total,
    stride_q,
    stride_k,
    stride_gate,
    stride_beta,
    num_sequences,
    first_slot,
    lower_bound,
    H: tl.constexpr,
    DK: tl.constexpr,
    BT: tl.constexpr,
    DIAGONAL: tl.constexpr,
    BOUNDED: tl.constexpr,
    EXACT: tl.constexpr,
):
    DOT: tl.constexpr = tl.float32 if EXACT else tl.float16
    pid = tl.program_id(0).to(tl.int64)
    i_c = pid // H
    i_h = pid % H
    slot = i_c + first_slot
    _, _, end, t_0 = locate(slot, cu_seqlens, num_sequences, BT)
    if t_0 >= end:
        return

    o_t = tl.arange(0, BT)
    o_k = tl.arange(0, DK)
    row = o_t[:, None]
    col = o_t[None, :]
    m_t = t_0 + o_t < end
    tokens = t_0 + o_t.to(tl.int64)

    # Registers rule here: normalised q and k are kept in the dot dtype, and exponents are made one
    # set at a time. Loading q and k before the gate is done was tried: more spills, 5 % slower.
    p_k = k + tokens[:, None] * stride_k + i_h * DK + o_k[None, :]
    p_q = q + tokens[:, None] * stride_q + i_h * DK + o_k[None, :]
    p_f = gate + tokens[:, None] * stride_gate + i_h * DK + o_k[None, :]
    b_f = tl.load(p_f, mask=m_t[:, None], other=NO_TOKEN)
    b_beta = tl.load(beta + tokens * stride_beta + i_h, mask=m_t, other=0.0).to(tl.float32)
    b_beta = tl.where(m_t, sigmoid(b_beta), 0.0)
    rate = tl.exp(tl.load(a_log + i_h).to(tl.float32))
    bias = tl.load(dt_bias + i_h * DK + o_k).to(tl.float32)
    g = log2_decay(b_f.to(tl.float32) + bias[None, :], rate, lower_bound, BOUNDED)
    if not BOUNDED:
        g = tl.maximum(g, -MAX_DECAY * LOG2_E)
    base = i_c * H + i_h
    b_total = tl.sum(g, axis=0)
    tl.store(total + base * DK + o_k, tl.exp2(b_total))
    b_k = normalised(tl.load(p_k, mask=m_t[:, None], other=0.0), DOT)
    b_q = normalised(tl.load(p_q, mask=m_t[:, None], other=0.0), DOT)

    # Pairs inside a diagonal block: exponents taken about the middle row of the block.
    apart = row ^ col  # below a power of two: row and col are in one block of that size
    half_d: tl.constexpr = DIAGONAL // 2
    later = (row & half_d) != 0
    sign = tl.where(later, 1.0, -1.0)
    about = masked_sums(tl.where((apart < half_d) & ((col <= row) == later), sign, 0.0), g, EXACT)
    same = apart < DIAGONAL
    away = tl.trans(b_k.to(tl.float32) * tl.exp2(-about))
    toward = tl.exp2(about)
    if EXACT:
        kk = tl.dot(b_k * toward, away, input_precision="ieee")
        qk = tl.dot(b_q * toward, away, input_precision="ieee")
    else:
        kk = tl.dot(b_k.to(tl.float32) * toward, away, input_precision="tf32")
        qk = tl.dot(b_q.to(tl.float32) * toward, away, input_precision="tf32")
    kk = tl.where(same, kk, 0.0)
    qk = tl.where(same, qk, 0.0)

    # Larger blocks: the later half against the earlier half, both decayed to the border between.
    LEVELS: tl.constexpr = (
        0 if BT == DIAGONAL else (1 if BT == 2 * DIAGONAL else (2 if BT == 4 * DIAGONAL else 3))
    )
    for level in tl.static_range(0, LEVELS):
        half = DIAGONAL << level
        ones = (apart < half) & ((col <= row) == ((row & half) != 0))
        near = tl.exp2(masked_sums(tl.where(ones, 1.0, 0.0), g, EXACT)).to(DOT)
        b_near = b_k * near
        across = (apart >= half) & (apart < 2 * half)
        kk = tl.where(across, dot(b_near, tl.trans(b_near), EXACT), kk)
        qk = tl.where(across, dot(b_q * near, tl.trans(b_near), EXACT), qk)
    p_pairs = base * BT * BT + row * BT + col
    tl.store(mix + p_pairs, tl.where(row >= col, qk, 0.0).to(DOT))
    tl.store(mixing + p_pairs, tl.where(row > col, kk * b_beta[:, None], 0.0).to(DOT))

    p_bk = base * BT * DK + row * DK + o_k[None, :]
    cumulative = masked_sums(tl.where(col <= row, 1.0, 0.0), g, EXACT)
    left = tl.exp2(tl.minimum(b_total[None, :] - cumulative, 0.0)).to(DOT)
    tl.store(kg + p_bk, b_k * left)
    past = tl.exp2(cumulative).to(DOT)
    tl.store(w + p_bk, b_k * past)
    tl.store(qg + p_bk, b_q * past)
