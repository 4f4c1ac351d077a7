"""Grouped-query attention over pages: tiles of rows and heads against steps of entries.

Letters: N heads, NKV of keys, DK and DV channels of a head (BK, BV: the powers of two that hold
them); BT rows of one sequence by BG heads of one key head are the tile's M = BT BG query rows; S
entries of a page, BS of a step; K selected blocks of BLOCK entries in each of LISTS lists; TILES
of 128 channels that share a scale of an FP8 cache. Maximum and denominator are in units of log2.
"""

import triton
import triton.language as tl

from day0_kernels.common.activations import tanh
from day0_kernels.common.ragged import locate

NEGATIVE = tl.constexpr(float("-inf"))
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def head_of(
    pages, scales, page, entry, exists, stride_page, stride_entry, stride_scale_page, stride_scale,
    MASKED: tl.constexpr, D: tl.constexpr, BD: tl.constexpr, BS: tl.constexpr,
    FP8: tl.constexpr, FOLD: tl.constexpr, TILES: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """(entries [BS, BD] of one head in the dot dtype, their scales [BS] where FOLD leaves them to
    the caller, else anything)."""
    o_d = tl.arange(0, BD)
    at = pages + (page * stride_page + entry * stride_entry)[:, None] + o_d[None, :]
    if D < BD:
        mask = exists[:, None] & (o_d < D)[None, :]
        found = tl.load(at, mask=mask, other=0.0)
    elif MASKED:
        found = tl.load(at, mask=exists[:, None], other=0.0)
    else:
        found = tl.load(at)
    found = found.to(DOT)
    scale = exists
    if FP8:
        at = scales + page * stride_scale_page + entry * stride_scale
        if FOLD:
            scale = tl.load(at, mask=exists, other=0.0)
        else:
            o_t = tl.arange(0, TILES)
            each = tl.load(at[:, None] + o_t[None, :], mask=exists[:, None], other=0.0)
            tiles = tl.reshape(found, (BS, TILES, BD // TILES))
            found = tl.reshape(tiles * each.to(DOT)[:, :, None], (BS, BD))
    return found, scale


@triton.jit
def advance(
    b_q, largest, total, acc, at, exists, position, key, value, key_scale, value_scale, table,
    stride_key_page, stride_key, stride_value_page, stride_value,
    stride_key_scale_page, stride_key_scale, stride_value_scale_page, stride_value_scale,
    scale, cap,
    MASKED: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    S: tl.constexpr, BS: tl.constexpr, WINDOW: tl.constexpr, CAP: tl.constexpr, FP8: tl.constexpr,
    FOLD_K: tl.constexpr, FOLD_V: tl.constexpr, KEY_TILES: tl.constexpr,
    VALUE_TILES: tl.constexpr,
):  # fmt: skip
    """(maximum, denominator, sum of values) after the entries numbered `at` [BS], of which those
    that `exists` are read. Not MASKED: every row sees all of them."""
    if MASKED:
        page = tl.load(table + at // S, mask=exists, other=0).to(tl.int64)
    else:
        page = tl.load(table + at // S).to(tl.int64)
    b_k, s_k = head_of(
        key, key_scale, page, at % S, exists, stride_key_page, stride_key, stride_key_scale_page,
        stride_key_scale, MASKED, DK, BK, BS, FP8, FOLD_K, KEY_TILES, b_q.dtype,
    )  # fmt: skip
    scores = tl.dot(b_q, tl.trans(b_k), input_precision="ieee")
    if FP8 and FOLD_K:
        scores *= s_k[None, :]
    if CAP:
        scores = tanh(scores * scale) * cap
        unit = 1.0
    else:
        unit = scale
    if MASKED:
        seen = exists[None, :] & (at[None, :] <= position[:, None])
        if WINDOW > 0:
            seen = seen & (at[None, :] > position[:, None] - WINDOW)
        scores = tl.where(seen, scores, NEGATIVE)
    larger = tl.maximum(largest, tl.max(scores, axis=1) * unit)
    base = larger
    if MASKED:
        base = tl.where(larger == NEGATIVE, 0.0, larger)  # nothing seen so far
    p = tl.exp2(scores * unit - base[:, None])
    old = tl.exp2(largest - base)
    total = total * old + tl.sum(p, axis=1)
    b_v, s_v = head_of(
        value, value_scale, page, at % S, exists, stride_value_page, stride_value,
        stride_value_scale_page, stride_value_scale, MASKED, DV, BV, BS, FP8, FOLD_V, VALUE_TILES,
        b_q.dtype,
    )  # fmt: skip
    if FP8 and FOLD_V:
        p *= s_v[None, :]
    acc = acc * old[:, None]
    acc = tl.dot(p.to(b_v.dtype), b_v, acc, input_precision="ieee")
    return larger, total, acc


# sizes that change from step to step, which must not compile anew
@triton.jit(do_not_specialize=["stride_table", "rows", "num_sequences"])
def attend_kernel(
    q, key, value, key_scale, value_scale, table, cu_seqlens, positions, seq, selected, sink, out,
    lse, stride_q, stride_key_page, stride_key, stride_value_page, stride_value,
    stride_key_scale_page, stride_key_scale, stride_value_scale_page, stride_value_scale,
    stride_table, stride_selected, stride_out_split, stride_out, rows, num_sequences, scale, cap,
    N: tl.constexpr, NKV: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BK: tl.constexpr,
    BV: tl.constexpr, BT: tl.constexpr, BG: tl.constexpr, S: tl.constexpr, BS: tl.constexpr,
    K: tl.constexpr, BLOCK: tl.constexpr, LISTS: tl.constexpr, WINDOW: tl.constexpr,
    CAP: tl.constexpr, SPLITS: tl.constexpr, SINK: tl.constexpr, FP8: tl.constexpr,
    KEY_TILES: tl.constexpr, VALUE_TILES: tl.constexpr,
):  # fmt: skip
    """Grid (tiles * NKV * ceil(N / NKV / BG), SPLITS); tiles: T rows with BT 1, else the slots of
    common/ragged.py. out [SPLITS, T, N * DV], normalised; lse [SPLITS, N, T]."""
    SHARE: tl.constexpr = N // NKV
    BLOCKS: tl.constexpr = (SHARE + BG - 1) // BG
    FOLD_K: tl.constexpr = KEY_TILES == 1
    # fp16 has no room for a small weight times a small scale
    FOLD_V: tl.constexpr = VALUE_TILES == 1 and q.dtype.element_ty != tl.float16
    tile = tl.program_id(0) // (NKV * BLOCKS)
    kv = tl.program_id(0) // BLOCKS % NKV
    split = tl.program_id(1)
    m = tl.arange(0, BT * BG)
    among = tl.program_id(0) % BLOCKS * BG + m % BG
    head = kv * SHARE + among
    if BT == 1:
        sequence = tl.load(seq + tile).to(tl.int64)
        first_row = tile.to(tl.int64)
        row = first_row + m // BG
        valid = among < SHARE
        p_first = tl.load(positions + first_row).to(tl.int32)
        p_last = p_first
    else:
        # the last tiles see most and come first
        tile = tl.num_programs(0) // (NKV * BLOCKS) - 1 - tile
        sequence, begin, end, first_row = locate(tile, cu_seqlens, num_sequences, BT)
        if first_row >= end:
            return
        row = first_row + m // BG
        valid = (row < end) & (among < SHARE)
        p_first = tl.load(positions + first_row).to(tl.int32)
        p_last = p_first + tl.minimum(end - first_row, BT).to(tl.int32) - 1
        sequence = tl.cast(sequence, tl.int64)
    position = tl.where(valid, p_first + m // BG, -1)
    o_k = tl.arange(0, BK)
    b_q = tl.load(
        q + (row * stride_q + head * DK)[:, None] + o_k[None, :],
        mask=valid[:, None] & (o_k < DK)[None, :], other=0.0,
    )  # fmt: skip
    table += sequence * stride_table
    key += kv * DK
    value += kv * DV
    key_scale += kv * KEY_TILES
    value_scale += kv * VALUE_TILES
    o_s = tl.arange(0, BS)
    largest = tl.full((BT * BG,), NEGATIVE, tl.float32)
    total = tl.zeros((BT * BG,), tl.float32)
    acc = tl.zeros((BT * BG, BV), tl.float32)
    if K > 0:
        PART: tl.constexpr = ((K * BLOCK + BS - 1) // BS + SPLITS - 1) // SPLITS * BS
        selected += first_row * stride_selected + kv * LISTS // NKV * K
        for step in range(0, PART, BS):
            place = split * PART + step + o_s
            number = tl.load(selected + place // BLOCK, mask=place < K * BLOCK, other=-1)
            at = number.to(tl.int32) * BLOCK + place % BLOCK
            exists = (number >= 0) & (at <= p_last)
            largest, total, acc = advance(
                b_q, largest, total, acc, at, exists, position, key, value, key_scale,
                value_scale, table, stride_key_page, stride_key, stride_value_page, stride_value,
                stride_key_scale_page, stride_key_scale, stride_value_scale_page,
                stride_value_scale, scale, cap, True, DK, DV, BK, BV, S, BS, 0, CAP, FP8, FOLD_K,
                FOLD_V, KEY_TILES, VALUE_TILES,
            )  # fmt: skip
    else:
        low = tl.maximum(p_first + 1 - WINDOW, 0) if WINDOW > 0 else 0
        high = p_last + 1
        count = tl.cdiv(tl.cdiv(high - low, BS), SPLITS) * BS
        low += split * count
        high = tl.minimum(low + count, high)
        # from `inner` to `outer` in whole steps, every row sees all entries
        inner = low
        outer = low
        if BT > 1:
            if WINDOW > 0:
                inner += tl.cdiv(tl.maximum(p_last + 1 - WINDOW - low, 0), BS) * BS
                for first in range(low, tl.minimum(inner, high), BS):
                    at = first + o_s
                    largest, total, acc = advance(
                        b_q, largest, total, acc, at, at < high, position, key, value, key_scale,
                        value_scale, table, stride_key_page, stride_key, stride_value_page,
                        stride_value, stride_key_scale_page, stride_key_scale,
                        stride_value_scale_page, stride_value_scale, scale, cap, True, DK, DV, BK,
                        BV, S, BS, WINDOW, CAP, FP8, FOLD_K, FOLD_V, KEY_TILES, VALUE_TILES,
                    )  # fmt: skip
            outer = inner + tl.maximum(tl.minimum(high, p_first + 1) - inner, 0) // BS * BS
            for first in range(inner, outer, BS):
                at = first + o_s
                largest, total, acc = advance(
                    b_q, largest, total, acc, at, at >= 0, position, key, value, key_scale,
                    value_scale, table, stride_key_page, stride_key, stride_value_page,
                    stride_value, stride_key_scale_page, stride_key_scale,
                    stride_value_scale_page, stride_value_scale, scale, cap, False, DK, DV, BK,
                    BV, S, BS, WINDOW, CAP, FP8, FOLD_K, FOLD_V, KEY_TILES, VALUE_TILES,
                )  # fmt: skip
        for first in range(outer, high, BS):
            at = first + o_s
            largest, total, acc = advance(
                b_q, largest, total, acc, at, at < high, position, key, value, key_scale,
                value_scale, table, stride_key_page, stride_key, stride_value_page, stride_value,
                stride_key_scale_page, stride_key_scale, stride_value_scale_page,
                stride_value_scale, scale, cap, True, DK, DV, BK, BV, S, BS, WINDOW, CAP, FP8,
                FOLD_K, FOLD_V, KEY_TILES, VALUE_TILES,
            )  # fmt: skip
    if SINK:
        # one split has the sink in its denominator
        logit = tl.load(sink + head, mask=valid & (split == 0), other=NEGATIVE)
        logit = logit.to(tl.float32) * LOG2_E
        larger = tl.maximum(largest, logit)
        base = tl.where(larger == NEGATIVE, 0.0, larger)
        old = tl.exp2(largest - base)
        total = total * old + tl.exp2(logit - base)
        acc = acc * old[:, None]
        largest = larger
    empty = total == 0.0
    total = tl.where(empty, 1.0, total)
    o_v = tl.arange(0, BV)
    p_out = out + split.to(tl.int64) * stride_out_split + row * stride_out + head * DV
    tl.store(p_out[:, None] + o_v[None, :], (acc / total[:, None]).to(out.dtype.element_ty),
             mask=valid[:, None] & (o_v < DV)[None, :])  # fmt: skip
    if SPLITS > 1:
        weight = tl.where(empty, NEGATIVE, largest + tl.log2(total))
        tl.store(lse + (split * N + head).to(tl.int64) * rows + row, weight, mask=valid)
