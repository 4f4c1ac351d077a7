"""Prefill kernels of lightning attention: one pass along the chunks of a sequence and head.

Letters: BT chunk length, BV value columns of a program, D head dim, H heads, S segments that a
sequence is cut into. States are transposed in registers, [BV, D], the left operand of products.
`boundary` [N, S, H, D, D] fp32 holds the carried state, then what each segment but the last makes
of an empty one.
"""

import triton
import triton.language as tl

from day0_kernels.common.blocks import dot
from day0_kernels.lightning.slope import log2_slope


@triton.jit
def part_of(cu_seqlens, i_s, i_seg, BT: tl.constexpr, S: tl.constexpr):
    """(first token of segment `i_seg`, tokens in it, tokens of a whole segment, is it the last)."""
    begin = tl.load(cu_seqlens + i_s).to(tl.int64)
    end = tl.load(cu_seqlens + i_s + 1).to(tl.int64)
    whole = (end - begin + BT * S - 1) // (BT * S) * BT
    first = tl.minimum(begin + i_seg * whole, end)
    last = tl.minimum(first + whole, end)
    return first, (last - first).to(tl.int32), whole, (last == end) & (last > first)


@triton.jit
def carried_state(p_state, offsets, p_start):
    """The fp32 state in a slot, or zeros where none is carried."""
    live = tl.load(p_start) > 0
    return tl.load(p_state + offsets, mask=(offsets >= 0) & live, other=0.0).to(tl.float32)


@triton.jit
def rows_at(p, o_t, o_c, stride, here):
    """Rows `o_t` from `p` on, at channels `o_c`; zeros where no token is."""
    return tl.load(p + (o_t[:, None] * stride + o_c[None, :]), mask=here[:, None], other=0.0)


@triton.jit
def away_from_middle(slope, BT: tl.constexpr):
    """What a token of a chunk weighs at the chunk's middle, were there no end: [BT] fp32.

    The decay from token j to token i is a ratio of two of these: vectors, not a matrix that would
    not fit registers. `LARGEST_SCALE` of slope.py keeps them within 2^+-58.
    """
    return tl.exp2(slope * (tl.arange(0, BT) - BT // 2).to(tl.float32))


@triton.jit
def to_middle(s, slope, BT: tl.constexpr):
    """A state as the loop keeps it: at the middle of the chunk before, were that chunk whole."""
    return s * tl.exp2(slope * (BT // 2 - 1))


@triton.jit
def from_middle(s, slope, tokens, BT: tl.constexpr):
    """The state after the last of `tokens` tokens (one or more) from what the loop leaves."""
    last = (tokens - 1) % BT - BT // 2
    return s * tl.exp2(-slope * last.to(tl.float32))


@triton.jit
def dot_onto(total, a, b, EXACT: tl.constexpr):
    """total + a b"""
    if EXACT:
        return tl.dot(a, b, total, input_precision="ieee")
    else:
        return tl.dot(a, b, total)


@triton.jit
def boundary_kernel(
    k,
    v,
    state,
    boundary,
    cu_seqlens,
    slot,
    start,
    stride_k,
    stride_v,
    stride_slot,
    stride_head,
    slope_scale,
    H: tl.constexpr,
    D: tl.constexpr,
    BT: tl.constexpr,
    BV: tl.constexpr,
    S: tl.constexpr,
    EXACT: tl.constexpr,
    num_stages: tl.constexpr,
):
    """Fill `boundary`. Grid (D / BV, H, N * S); the last segment's program carries the state."""
    i_h = tl.program_id(1).to(tl.int64)
    i_s = (tl.program_id(2) // S).to(tl.int64)
    i_seg = tl.program_id(2) % S
    o_t = tl.arange(0, BT)
    o_k = tl.arange(0, D)
    o_v = tl.program_id(0) * BV + tl.arange(0, BV)
    offsets = o_k[None, :] * D + o_v[:, None]
    p_to = boundary + ((i_s * S + (i_seg + 1) % S) * H + i_h) * D * D + offsets
    if i_seg == S - 1:
        p_state = state + tl.load(slot + i_s).to(tl.int64) * stride_slot + i_h * stride_head
        tl.store(p_to, carried_state(p_state, offsets, start + i_s))
        return
    slope = log2_slope(i_h, slope_scale, H)
    first, rest, _, _ = part_of(cu_seqlens, i_s, i_seg, BT, S)
    p_k = k + first * stride_k + i_h * D
    p_v = v + first * stride_v + i_h * D
    away = away_from_middle(slope, BT)
    keep = tl.exp2(-slope * BT)
    tokens = rest
    s = tl.zeros((BV, D), tl.float32)
    for _ in tl.range(0, tl.cdiv(rest, BT), num_stages=num_stages):
        b_k = rows_at(p_k, o_t, o_k, stride_k, o_t < rest)
        v_t = tl.trans(rows_at(p_v, o_t, o_v, stride_v, o_t < rest))
        v_t = (v_t.to(tl.float32) * away[None, :]).to(b_k.dtype)
        s = dot_onto(s * keep, v_t, b_k, EXACT)
        p_k += BT * stride_k
        p_v += BT * stride_v
        rest -= BT
    tl.store(p_to, from_middle(s, slope, tokens, BT))


@triton.jit
def scan_kernel(
    q,
    k,
    v,
    state,
    boundary,
    y,
    cu_seqlens,
    slot,
    start,
    stride_q,
    stride_k,
    stride_v,
    stride_slot,
    stride_head,
    stride_y,
    slope_scale,
    H: tl.constexpr,
    D: tl.constexpr,
    BT: tl.constexpr,
    BV: tl.constexpr,
    S: tl.constexpr,
    EXACT: tl.constexpr,
    num_stages: tl.constexpr,
):
    """Outputs of one segment, and the state after the last one. Grid (D / BV, H, N * S)."""
    i_h = tl.program_id(1).to(tl.int64)
    i_s = (tl.program_id(2) // S).to(tl.int64)
    i_seg = tl.program_id(2) % S
    first, rest, whole, is_last = part_of(cu_seqlens, i_s, i_seg, BT, S)
    if rest == 0:
        return
    o_t = tl.arange(0, BT)
    o_k = tl.arange(0, D)
    o_v = tl.program_id(0) * BV + tl.arange(0, BV)
    offsets = o_k[None, :] * D + o_v[:, None]
    slope = log2_slope(i_h, slope_scale, H)
    p_state = state + tl.load(slot + i_s).to(tl.int64) * stride_slot + i_h * stride_head
    if S == 1:
        s = carried_state(p_state, offsets, start + i_s)
    else:
        p_boundary = boundary + (i_s * S * H + i_h) * D * D + offsets
        s = tl.load(p_boundary)
        for _ in range(0, i_seg):
            p_boundary += H * D * D
            s = s * tl.exp2(-slope * whole.to(tl.float32)) + tl.load(p_boundary)

    # scalar pointers with 32-bit offsets in a chunk: matrices of pointers would not fit registers
    p_q = q + first * stride_q + i_h * D
    p_k = k + first * stride_k + i_h * D
    p_v = v + first * stride_v + i_h * D
    p_y = y + first * stride_y + i_h * D
    away = away_from_middle(slope, BT)
    toward = tl.exp2(slope * (BT // 2 - o_t).to(tl.float32))
    keep = tl.exp2(-slope * BT)
    later = o_t[None, :] >= o_t[:, None]  # a query (column) than a key, or the same token
    tokens = rest
    s = to_middle(s, slope, BT)
    for _ in tl.range(0, tl.cdiv(rest, BT), num_stages=num_stages):
        here = o_t < rest
        b_q = rows_at(p_q, o_t, o_k, stride_q, here)
        b_k = rows_at(p_k, o_t, o_k, stride_k, here)
        v_t = tl.trans(rows_at(p_v, o_t, o_v, stride_v, here))
        v_t = (v_t.to(tl.float32) * away[None, :]).to(b_q.dtype)
        s *= keep
        pairs = tl.where(later, dot(b_k, tl.trans(b_q), EXACT), 0.0).to(b_q.dtype)
        out = dot(s.to(b_q.dtype), tl.trans(b_q), EXACT)
        out = dot_onto(out, v_t, pairs, EXACT) * toward[None, :]
        to = o_t[None, :] * stride_y + o_v[:, None]
        tl.store(p_y + to, out.to(y.dtype.element_ty), mask=here[None, :])
        s = dot_onto(s, v_t, b_k, EXACT)
        p_q += BT * stride_q
        p_k += BT * stride_k
        p_v += BT * stride_v
        p_y += BT * stride_y
        rest -= BT
    if is_last:
        s = from_middle(s, slope, tokens, BT)
        tl.store(p_state + offsets, s.to(state.dtype.element_ty))
