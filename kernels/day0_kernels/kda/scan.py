"""The serial part of the prefill: states passed along chunks, transposed so that they stay in
registers as the left operand of every product.

Letters: BT chunk length, BV value columns of a program, S number of segments a sequence is cut
into. `find` fields are those of chunk.py.
"""

import triton
import triton.language as tl

from day0_kernels.kda.chunk import dot
from day0_kernels.kda.solve import HEADROOM, power_of_two_above


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
def scan_kernel(
    w,
    qg,
    kg,
    ut,
    mix,
    total,
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
    bk = at * BT * DK + o_t[:, None] * DK + o_k[None, :]
    p_w = w + bk
    p_qg = qg + bk
    p_kg = kg + bk
    p_mix = mix + at * BT * BT + o_t[:, None] * BT + o_t[None, :]
    p_ut = ut + at * DV * BT + o_v[:, None] * BT + o_t[None, :]
    p_total = total + at * DK + o_k
    p_scale = scale + at
    first = begin + c_a * BT
    p_o = o + first * stride_o + i_h * DV + o_t[None, :].to(tl.int64) * stride_o + o_v[:, None]
    left = end - first
    for _ in tl.range(c_a, c_b, num_stages=num_stages):
        b_w = tl.load(p_w)
        b_qg = tl.load(p_qg)
        b_kg = tl.load(p_kg)
        b_mix = tl.load(p_mix)
        b_ut = tl.load(p_ut)
        b_total = tl.load(p_total)
        own = tl.load(p_scale) / unit
        b_s = s.to(DOT)
        b_u = (b_ut.to(tl.float32) * own - dot(b_s, tl.trans(b_w), EXACT)).to(DOT)
        out = dot(b_s, tl.trans(b_qg), EXACT) + dot(b_u, tl.trans(b_mix), EXACT)
        s = s * b_total[None, :] + dot(b_u, b_kg, EXACT)
        out = (out * (unit * output_scale)).to(o.dtype.element_ty)
        tl.store(p_o, out, mask=(o_t < left)[None, :])
        p_w += H * BT * DK
        p_qg += H * BT * DK
        p_kg += H * BT * DK
        p_mix += H * BT * BT
        p_ut += H * DV * BT
        p_total += H * DK
        p_scale += H
        p_o += BT * stride_o
        left -= BT
    s = s * unit
    if (c_b == c_1) & (c_b > c_a):
        if c_1 == num_chunks:
            i_slot = tl.load(slot + i_s).to(tl.int64)
            p_state = state + i_slot * stride_slot + i_h * stride_head + offsets
            tl.store(p_state, s.to(state.dtype.element_ty))
        else:
            tl.store(carry + (i_s * H + i_h) * DK * DV + offsets, s)


@triton.jit
def transition_kernel(
    w,
    kg,
    ut,
    total,
    scale,
    transition_a,
    transition_b,
    cu_seqlens,
    first_slot,
    num_slots,
    H: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    BT: tl.constexpr,
    BV: tl.constexpr,
    S: tl.constexpr,
    EXACT: tl.constexpr,
    num_stages: tl.constexpr,
):
    """(A, B) with S_out = A S_in + B for every segment: A [N, S, H, DK, DK], B [.., DK, DV].

    Grid ((DV + DK) / BV, H, N * S). The columns of A run through the same recurrence as those of
    the state, from the unit matrix and with no values.
    """
    DOT: tl.constexpr = tl.float32 if EXACT else tl.float16
    i_v = tl.program_id(0)
    i_h = tl.program_id(1).to(tl.int64)
    i_s = (tl.program_id(2) // S).to(tl.int64)
    i_seg = tl.program_id(2) % S
    begin, end, base, c_0, c_1, num_chunks = chunk_range(cu_seqlens, i_s, first_slot, num_slots, BT)
    per_segment = (c_1 - c_0 + S - 1) // S
    c_a = tl.minimum(c_0 + i_seg * per_segment, c_1)
    c_b = tl.minimum(c_a + per_segment, c_1)
    o_t = tl.arange(0, BT)
    o_k = tl.arange(0, DK)
    is_b = i_v * BV < DV
    o_v = i_v * BV + tl.arange(0, BV) - tl.where(is_b, 0, DV)
    s = tl.where((o_v[:, None] == o_k[None, :]) & (i_v * BV >= DV), 1.0, 0.0)
    at = (base + c_a) * H + i_h
    unit = tl.where(is_b, largest(scale, at, c_b - c_a, 2.0**-60, H), 1.0 / HEADROOM)
    s = s * (1.0 / unit)
    bk = at * BT * DK + o_t[:, None] * DK + o_k[None, :]
    p_w = w + bk
    p_kg = kg + bk
    p_ut = ut + at * DV * BT + o_v[:, None] * BT + o_t[None, :]
    p_total = total + at * DK + o_k
    p_scale = scale + at
    for _ in tl.range(c_a, c_b, num_stages=num_stages):
        b_w = tl.load(p_w)
        b_kg = tl.load(p_kg)
        b_ut = tl.load(p_ut)
        b_total = tl.load(p_total)
        own = tl.where(is_b, tl.load(p_scale), 0.0) / unit
        u = b_ut.to(tl.float32) * own - dot(s.to(DOT), tl.trans(b_w), EXACT)
        s = s * b_total[None, :] + dot(u.to(DOT), b_kg, EXACT)
        p_w += H * BT * DK
        p_kg += H * BT * DK
        p_ut += H * DV * BT
        p_total += H * DK
        p_scale += H
    s = s * unit
    at = (i_s * S + i_seg) * H + i_h
    if is_b:
        tl.store(transition_b + at * DK * DV + o_k[None, :] * DV + o_v[:, None], s)
    else:
        tl.store(transition_a + at * DK * DK + o_k[None, :] * DK + o_v[:, None], s)


@triton.jit
def precise_dot(s, a, EXACT: tl.constexpr):
    """s times a to about fp32 accuracy: products of the fp16 halves of both (entries of a are at
    most 1 in size, those of s are brought there)."""
    if EXACT:
        return tl.dot(s, a, input_precision="ieee")
    else:
        unit = power_of_two_above(tl.max(tl.max(tl.abs(s), axis=1), axis=0))
        s = s * (1.0 / unit)
        s_high = s.to(tl.float16)
        s_low = (s - s_high.to(tl.float32)).to(tl.float16)
        a_high = a.to(tl.float16)
        a_low = (a - a_high.to(tl.float32)).to(tl.float16)
        return tl.dot(s_high, a_low, tl.dot(s_low, a_high, tl.dot(s_high, a_high))) * unit


@triton.jit
def chain_kernel(
    transition_a,
    transition_b,
    state,
    carry,
    segment_state,
    cu_seqlens,
    slot,
    start,
    stride_slot,
    stride_head,
    first_slot,
    num_slots,
    H: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    BT: tl.constexpr,
    BV: tl.constexpr,
    S: tl.constexpr,
    EXACT: tl.constexpr,
):
    """State at the start of every segment, fp32 throughout. Grid (DV / BV, H, N)."""
    i_v = tl.program_id(0)
    i_h = tl.program_id(1).to(tl.int64)
    i_s = tl.program_id(2).to(tl.int64)
    begin, end, base, c_0, c_1, num_chunks = chunk_range(cu_seqlens, i_s, first_slot, num_slots, BT)
    if c_0 == c_1:
        return
    o_k = tl.arange(0, DK)
    o_v = i_v * BV + tl.arange(0, BV)
    offsets = o_k[None, :] * DV + o_v[:, None]
    s = load_state(
        state, carry, slot, start, i_s, i_h, c_0, o_v, stride_slot, stride_head, H, DK, DV
    )
    at = i_s * S * H + i_h
    tl.store(segment_state + at * DK * DV + offsets, s)
    for _ in range(1, S):
        p_a = transition_a + at * DK * DK + o_k[None, :] * DK + o_k[:, None]
        a = tl.load(p_a)
        b = tl.load(transition_b + at * DK * DV + offsets)
        s = precise_dot(s, a, EXACT) + b
        at += H
        tl.store(segment_state + at * DK * DV + offsets, s)
