"""The serial part of a delta rule's prefill: states passed along chunks, transposed so that they
stay in registers as the left operand of every product.

Letters: BT chunk length, BV value columns of a program, S number of segments a sequence is cut
into, SHARE value heads that share a key head. What a chunk offers, per (chunk slot, head), in the
dot dtype: w [BT, DK], ut [DV, BT] in units of `scale`, mix [BT, BT], and per key head qg and kg
[BT, DK]. With one decay per channel qg and kg carry it and `decay` is the retention [DK] of the
chunk; SCALAR: they carry none, and `decay` [BT] has the running sums of the tokens' log2 decays.
"""

import triton
import triton.language as tl

from day0_kernels.common.blocks import HEADROOM, dot, power_of_two_above


@triton.jit
def chunk_range(cu_seqlens, i_s, first_slot, num_slots, BT: tl.constexpr):
    """(slot of chunk 0 in this window, first and end chunk of sequence i_s here, its chunks)."""
    begin = tl.load(cu_seqlens + i_s).to(tl.int64)
    end = tl.load(cu_seqlens + i_s + 1).to(tl.int64)
    base = begin // BT + i_s - first_slot
    num_chunks = (end - begin + BT - 1) // BT
    c_0 = tl.maximum(-base, 0)
    c_1 = tl.minimum(num_chunks, num_slots - base)
    return begin, end, base, c_0, tl.maximum(c_1, c_0), num_chunks


@triton.jit
def load_state(state, carry, slot, start, i_s, i_h, c_0, o_v, stride_slot, stride_head,
               H: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr):  # fmt: skip
    """State of one head as [BV, DK] fp32: the carried one, the one in the slot, or zeros."""
    o_k = tl.arange(0, DK)
    offsets = o_k[None, :] * DV + o_v[:, None]
    live = tl.load(start + i_s) > 0
    i_slot = tl.load(slot + i_s).to(tl.int64)
    if c_0 > 0:
        s = tl.load(carry + (i_s * H + i_h) * DK * DV + offsets)
    else:
        p_state = state + i_slot * stride_slot + i_h * stride_head + offsets
        s = tl.load(p_state, mask=(offsets >= 0) & live, other=0.0).to(tl.float32)
    return s


@triton.jit
def largest(scale, at, count, floor, H: tl.constexpr):
    """The largest of `floor` and `count` units `scale`, from position `at` in steps of H."""
    o_c = tl.arange(0, 128)
    result = floor
    for c in range(0, count, 128):
        units = tl.load(scale + at + (c + o_c) * H, mask=c + o_c < count, other=0.0)
        result = tl.maximum(result, tl.max(units, axis=0))
    return result


@triton.jit
def from_sums(p_decay, BT: tl.constexpr):
    """(retention from the chunk's start to each token, from it to the end, of the whole chunk)."""
    sums = tl.load(p_decay + tl.arange(0, BT))
    last = tl.load(p_decay + BT - 1)
    return tl.exp2(sums), tl.exp2(tl.minimum(last - sums, 0.0)), tl.exp2(last)


@triton.jit
def scan_kernel(
    w,
    qg,
    kg,
    ut,
    mix,
    decay,
    scale,
    state,
    carry,
    segment_state,
    o,
    cu_seqlens,
    slot,
    start,
    stride_slot,
    stride_head,
    stride_o,
    first_slot,
    num_slots,
    output_scale,
    H: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    BT: tl.constexpr,
    BV: tl.constexpr,
    S: tl.constexpr,
    SHARE: tl.constexpr,
    SCALAR: tl.constexpr,
    EXACT: tl.constexpr,
    num_stages: tl.constexpr,
):
    """Outputs of one segment of one sequence, and its state after the last one.

    Grid (DV / BV, H, N * S). With S > 1 every segment starts from `segment_state` [N, S, H, DK,
    DV]; else from the slot or, in a later window of a long batch, from `carry` [N, H, DK, DV].
    """
    DOT: tl.constexpr = tl.float32 if EXACT else tl.float16
    i_v = tl.program_id(0)
    i_h = tl.program_id(1).to(tl.int64)
    i_s = (tl.program_id(2) // S).to(tl.int64)
    i_seg = tl.program_id(2) % S
    begin, end, base, c_0, c_1, num_chunks = chunk_range(cu_seqlens, i_s, first_slot, num_slots, BT)
    if c_0 == c_1:
        return
    o_t = tl.arange(0, BT)
    o_k = tl.arange(0, DK)
    o_v = i_v * BV + tl.arange(0, BV)
    offsets = o_k[None, :] * DV + o_v[:, None]
    if S == 1:
        c_a = c_0
        c_b = c_1
        s = load_state(
            state, carry, slot, start, i_s, i_h, c_0, o_v, stride_slot, stride_head, H, DK, DV
        )
    else:
        per_segment = (c_1 - c_0 + S - 1) // S
        c_a = tl.minimum(c_0 + i_seg * per_segment, c_1)
        c_b = tl.minimum(c_a + per_segment, c_1)
        s = tl.load(segment_state + ((i_s * S + i_seg) * H + i_h) * DK * DV + offsets)

    unit = power_of_two_above(tl.max(tl.max(tl.abs(s), axis=1), axis=0)) / HEADROOM
    unit = largest(scale, (base + c_a) * H + i_h, c_b - c_a, unit, H)
    s = s * (1.0 / unit)
    at = (base + c_a) * H + i_h
    at_key = (base + c_a) * (H // SHARE) + i_h // SHARE
    rows = o_t[:, None] * DK + o_k[None, :]
    p_w = w + at * BT * DK + rows
    p_qg = qg + at_key * BT * DK + rows
    p_kg = kg + at_key * BT * DK + rows
    p_mix = mix + at * BT * BT + o_t[:, None] * BT + o_t[None, :]
    p_ut = ut + at * DV * BT + o_v[:, None] * BT + o_t[None, :]
    p_decay = decay + at * (BT if SCALAR else DK)
    p_scale = scale + at
    first = begin + c_a * BT
    p_o = o + first * stride_o + i_h * DV + o_t[None, :].to(tl.int64) * stride_o + o_v[:, None]
    rest = end - first
    for _ in tl.range(c_a, c_b, num_stages=num_stages):
        b_w = tl.load(p_w)
        b_qg = tl.load(p_qg)
        b_kg = tl.load(p_kg)
        b_mix = tl.load(p_mix)
        b_ut = tl.load(p_ut)
        own = tl.load(p_scale) / unit
        b_s = s.to(DOT)
        u = b_ut.to(tl.float32) * own - dot(b_s, tl.trans(b_w), EXACT)
        b_u = u.to(DOT)
        if SCALAR:
            past, left, total = from_sums(p_decay, BT)
            out = dot(b_s, tl.trans(b_qg), EXACT) * past[None, :] + dot(b_u, tl.trans(b_mix), EXACT)
            s = s * total + dot((u * left[None, :]).to(DOT), b_kg, EXACT)
        else:
            total = tl.load(p_decay + o_k)
            out = dot(b_s, tl.trans(b_qg), EXACT) + dot(b_u, tl.trans(b_mix), EXACT)
            s = s * total[None, :] + dot(b_u, b_kg, EXACT)
        out = (out * (unit * output_scale)).to(o.dtype.element_ty)
        tl.store(p_o, out, mask=(o_t < rest)[None, :])
        p_w += H * BT * DK
        p_qg += H // SHARE * BT * DK
        p_kg += H // SHARE * BT * DK
        p_mix += H * BT * BT
        p_ut += H * DV * BT
        p_decay += H * (BT if SCALAR else DK)
        p_scale += H
        p_o += BT * stride_o
        rest -= BT
    s = s * unit
    if (c_b == c_1) & (c_b > c_a):
        if c_1 == num_chunks:
            i_slot = tl.load(slot + i_s).to(tl.int64)
            p_state = state + i_slot * stride_slot + i_h * stride_head + offsets
            tl.store(p_state, s.to(state.dtype.element_ty))
        else:
            tl.store(carry + (i_s * H + i_h) * DK * DV + offsets, s)
