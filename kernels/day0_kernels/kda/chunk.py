"""Chunk-local part of the prefill: everything that needs no state, one program per chunk and head.

Letters: BT chunk length, DK/DV head dims, H heads. Layout of the results, per (chunk, head):
w, kg, qg [BT, DK], mix [BT, BT], ut [DV, BT] in the dot dtype, total [DK] and scale [] fp32.
"""

import triton
import triton.language as tl

from day0_kernels.kda.gates import LOG2_E, NO_TOKEN, log2_decay, sigmoid

L2_EPS = tl.constexpr(1e-6)
# Retention e^-16 = 1.1e-7 is below fp32 resolution of the state; a bound on the exponent per token
# is what lets the pairs inside a diagonal block be factored without overflow.
MAX_DECAY = tl.constexpr(16.0)
# Values are stored in units of a power of two per chunk, at most 2^4 in size: fp16 then resolves
# 2^-18 of the largest value and a state may exceed the values 2,000 times.
HEADROOM = tl.constexpr(16.0)


@triton.jit
def find_sequence(slot, cu_seqlens, num_sequences, BT: tl.constexpr):
    """The sequence that owns chunk slot `slot`, given that sequence s starts at cu[s] // BT + s."""
    low = 0
    high = num_sequences
    while high - low > 1:
        middle = (low + high) // 2
        begin = tl.load(cu_seqlens + middle).to(tl.int64) // BT + middle
        if begin <= slot:
            low = middle
        else:
            high = middle
    return low


@triton.jit
def power_of_two_above(x):
    """Smallest power of two that exceeds the positive x, at least 2^-60, from the bits of x."""
    bits = tl.maximum(x, 2.0**-61).to(tl.int32, bitcast=True) & 0x7F800000
    return bits.to(tl.float32, bitcast=True) * 2.0


@triton.jit
def dot(a, b, EXACT: tl.constexpr):
    if EXACT:
        return tl.dot(a, b, input_precision="ieee")
    else:
        return tl.dot(a, b)


@triton.jit
def normalised(pointers, mask, DOT: tl.constexpr):
    """Rows at `pointers` divided by their length, in the dot dtype; masked rows are zero."""
    x = tl.load(pointers, mask=mask, other=0.0).to(tl.float32)
    return (x * tl.rsqrt(tl.sum(x * x, axis=1) + L2_EPS)[:, None]).to(DOT)


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
def merged_inverse(inverse, mixing, HALF: tl.constexpr, BT: tl.constexpr, EXACT: tl.constexpr):
    """Inverses of diagonal blocks of 2 HALF rows from those of HALF rows."""
    DOT: tl.constexpr = tl.float32 if EXACT else tl.float16
    row = tl.arange(0, BT)[:, None]
    col = tl.arange(0, BT)[None, :]
    off = (row // (2 * HALF) == col // (2 * HALF)) & (row // HALF > col // HALF)
    below = tl.where(off, mixing, 0.0).to(DOT)
    small = inverse.to(DOT)
    return inverse - dot(dot(small, below, EXACT).to(DOT), small, EXACT)


@triton.jit
def inverse_unit_lower(mixing, BT: tl.constexpr, EXACT: tl.constexpr):
    """(I + mixing)^-1 for strictly lower `mixing`, by doubling exact block inverses.

    Every intermediate is a true inverse of a diagonal block, so its entries stay bounded by 1 (a
    product of contractions); a power series would not.
    """
    row = tl.arange(0, BT)[:, None]
    col = tl.arange(0, BT)[None, :]
    pair = (row // 2 == col // 2) & (row > col)
    inverse = tl.where(row == col, 1.0, tl.where(pair, -mixing, 0.0))
    LEVELS: tl.constexpr = 3 if BT == 16 else (4 if BT == 32 else 5)
    for level in tl.static_range(0, LEVELS):
        inverse = merged_inverse(inverse, mixing, 2 << level, BT, EXACT)
    return inverse


@triton.jit
def chunk_kernel(
    q,
    k,
    v,
    gate,
    beta,
    a_log,
    dt_bias,
    cu_seqlens,
    w,
    qg,
    kg,
    ut,
    mix,
    total,
    scale,
    stride_q,
    stride_k,
    stride_v,
    stride_gate,
    stride_beta,
    num_sequences,
    first_slot,
    lower_bound,
    H: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
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
    i_s = find_sequence(slot, cu_seqlens, num_sequences, BT)
    begin = tl.load(cu_seqlens + i_s).to(tl.int64)
    end = tl.load(cu_seqlens + i_s + 1).to(tl.int64)
    t_0 = begin + (slot - begin // BT - i_s) * BT
    if t_0 >= end:
        return

    o_t = tl.arange(0, BT)
    o_k = tl.arange(0, DK)
    o_v = tl.arange(0, DV)
    row = o_t[:, None]
    col = o_t[None, :]
    m_t = t_0 + o_t < end
    tokens = t_0 + o_t.to(tl.int64)

    # Registers rule here: tensors are loaded where they are needed, normalised q and k are kept in
    # the dot dtype, and exponents are made one set at a time.
    b_beta = tl.load(beta + tokens * stride_beta + i_h, mask=m_t, other=0.0).to(tl.float32)
    b_beta = tl.where(m_t, sigmoid(b_beta), 0.0)
    rate = tl.exp(tl.load(a_log + i_h).to(tl.float32))
    bias = tl.load(dt_bias + i_h * DK + o_k).to(tl.float32)
    p_f = gate + tokens[:, None] * stride_gate + i_h * DK + o_k[None, :]
    g = tl.load(p_f, mask=m_t[:, None], other=NO_TOKEN).to(tl.float32) + bias[None, :]
    g = log2_decay(g, rate, lower_bound, BOUNDED)
    if not BOUNDED:
        g = tl.maximum(g, -MAX_DECAY * LOG2_E)
    base = i_c * H + i_h
    b_total = tl.sum(g, axis=0)
    tl.store(total + base * DK + o_k, tl.exp2(b_total))
    b_k = normalised(k + tokens[:, None] * stride_k + i_h * DK + o_k[None, :], m_t[:, None], DOT)
    b_q = normalised(q + tokens[:, None] * stride_q + i_h * DK + o_k[None, :], m_t[:, None], DOT)

    # Pairs inside a diagonal block: exponents taken about the middle row of the block.
    half_d: tl.constexpr = DIAGONAL // 2
    middle = row // DIAGONAL * DIAGONAL + half_d
    same = row // DIAGONAL == col // DIAGONAL
    signs = tl.where(same & (row >= middle) & (col >= middle) & (col <= row), 1.0, 0.0)
    signs = tl.where(same & (row < middle) & (col < middle) & (col > row), -1.0, signs)
    about = masked_sums(signs, g, EXACT)
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
        size = DIAGONAL << (level + 1)
        middle = row // size * size + size // 2
        same = row // size == col // size
        ones = same & (row >= middle) & (col >= middle) & (col <= row)
        ones = ones | (same & (row < middle) & (col < middle) & (col > row))
        near = tl.exp2(masked_sums(tl.where(ones, 1.0, 0.0), g, EXACT)).to(DOT)
        b_near = b_k * near
        across = same & (row >= middle) & (col < middle)
        kk = tl.where(across, dot(b_near, tl.trans(b_near), EXACT), kk)
        qk = tl.where(across, dot(b_q * near, tl.trans(b_near), EXACT), qk)
    tl.store(
        mix + base * BT * BT + row * BT + col,
        tl.where(row >= col, qk, 0.0).to(mix.dtype.element_ty),
    )
    kk = tl.where(row > col, kk * b_beta[:, None], 0.0)
    inverse = (inverse_unit_lower(kk, BT, EXACT) * b_beta[None, :]).to(DOT)

    p_bk = base * BT * DK + row * DK + o_k[None, :]
    cumulative = masked_sums(tl.where(col <= row, 1.0, 0.0), g, EXACT)
    left = tl.exp2(tl.minimum(b_total[None, :] - cumulative, 0.0)).to(DOT)
    tl.store(kg + p_bk, b_k * left)
    past = tl.exp2(cumulative).to(DOT)
    b_q = normalised(q + tokens[:, None] * stride_q + i_h * DK + o_k[None, :], m_t[:, None], DOT)
    tl.store(qg + p_bk, b_q * past)
    tl.store(w + p_bk, dot(inverse, b_k * past, EXACT).to(DOT))

    p_v = v + tokens[:, None] * stride_v + i_h * DV + o_v[None, :]
    b_v = tl.load(p_v, mask=m_t[:, None], other=0.0).to(tl.float32)
    unit = power_of_two_above(tl.max(tl.max(tl.abs(b_v), axis=1), axis=0)) / HEADROOM
    b_u = dot(inverse, (b_v * (1.0 / unit)).to(DOT), EXACT)
    tl.store(ut + base * DV * BT + o_v[None, :] * BT + row, b_u.to(DOT))
    tl.store(scale + base, unit)
