"""Segments of a delta rule's prefill: what each makes of any state, and the states between them.

Letters and layouts as in scan.py.
"""

import triton
import triton.language as tl

from day0_kernels.common.blocks import HEADROOM, dot, power_of_two_above
from day0_kernels.common.scan import chunk_range, from_sums, largest, load_state


@triton.jit
def transition_kernel(
    w,
    kg,
    ut,
    decay,
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
    SHARE: tl.constexpr,
    SCALAR: tl.constexpr,
    EXACT: tl.constexpr,
    num_stages: tl.constexpr,
):
    """(A, B) with S_out = A S_in + B for every segment: A [N, S, H, DK, DK], B [.., DK, DV].

    Grid ((DV + DK) / BV, H, N * S). The columns of A run through the same recurrence as those of
    the state, from the unit matrix and with no values. With S = 1 a later window of a long batch
    goes on from what the one before left in A and B.
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
    to = (i_s * S + i_seg) * H + i_h
    p_b = transition_b + to * DK * DV + o_k[None, :] * DV + o_v[:, None]
    p_a = transition_a + to * DK * DK + o_k[None, :] * DK + o_v[:, None]
    unit = 2.0**-60
    if S == 1:
        if (c_a == c_b) & (num_chunks > 0):
            return
        if c_a > 0:
            if is_b:  # noqa: SIM108 (a branch: one of the two is read)
                s = tl.load(p_b)
            else:
                s = tl.load(p_a)
            unit = power_of_two_above(tl.max(tl.max(tl.abs(s), axis=1), axis=0)) / HEADROOM
    at = (base + c_a) * H + i_h
    unit = tl.where(is_b, largest(scale, at, c_b - c_a, unit, H), 1.0 / HEADROOM)
    s = s * (1.0 / unit)
    at_key = (base + c_a) * (H // SHARE) + i_h // SHARE
    rows = o_t[:, None] * DK + o_k[None, :]
    p_w = w + at * BT * DK + rows
    p_kg = kg + at_key * BT * DK + rows
    p_ut = ut + at * DV * BT + o_v[:, None] * BT + o_t[None, :]
    p_decay = decay + at * (BT if SCALAR else DK)
    p_scale = scale + at
    for _ in tl.range(c_a, c_b, num_stages=num_stages):
        b_w = tl.load(p_w)
        b_kg = tl.load(p_kg)
        b_ut = tl.load(p_ut)
        own = tl.where(is_b, tl.load(p_scale), 0.0) / unit
        u = b_ut.to(tl.float32) * own - dot(s.to(DOT), tl.trans(b_w), EXACT)
        if SCALAR:
            _, left, total = from_sums(p_decay, BT)
            s = s * total + dot((u * left[None, :]).to(DOT), b_kg, EXACT)
        else:
            total = tl.load(p_decay + o_k)
            s = s * total[None, :] + dot(u.to(DOT), b_kg, EXACT)
        p_w += H * BT * DK
        p_kg += H // SHARE * BT * DK
        p_ut += H * DV * BT
        p_decay += H * (BT if SCALAR else DK)
        p_scale += H
    s = s * unit
    if is_b:
        tl.store(p_b, s)
    else:
        tl.store(p_a, s)


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
