"""Absorbed latent attention over pages: every entry is read once for a block of heads.

Letters: N heads, BH of them in a program, HB such blocks; R latent, DR rope channels; S entries of
a page, BS of a step; K selected entries; TILE latent channels that share a scale of an FP8 cache.
Scores are in units of log2. Strides of entries come in units of 16 bytes (GRAIN elements), so that
the compiler sees that whole vectors can be loaded.
"""

import triton
import triton.language as tl

NEGATIVE = tl.constexpr(float("-inf"))
LOG2_E = tl.constexpr(1.4426950408889634)
TILE = tl.constexpr(128)
# Codes of FP8 are exact in fp16, so products with an FP8 cache are made in fp16, at a third of the
# instructions that bf16 would take. Scales are held 64 times too large: tiles whose largest latent
# is between 4e-4 and 1023 keep fp16's full precision, beyond 1023 the result is NaN.
FP8_UNIT = tl.constexpr(64.0)


@triton.jit
def entries(selected, step, end, length, BS: tl.constexpr, K: tl.constexpr):
    """Numbers of the entries of a step; -1 for those that the row does not see."""
    at = step + tl.arange(0, BS)
    if K > 0:
        at = tl.load(selected + at, mask=at < end, other=-1).to(tl.int32)
        return tl.where(at < length, at, -1)
    return tl.where(at < end, at, -1)


@triton.jit
def attend_kernel(
    q_latent, q_rope, latent, latent_scale, k_rope, table, positions, seq, selected, sink, out, lse,
    stride_q_row, stride_q_head, stride_qr_row, stride_qr_head, stride_latent_page, stride_latent,
    stride_scale_page, stride_scale, stride_rope_page, stride_rope, stride_table, stride_selected,
    stride_out_split, stride_out_row, stride_out_head, rows, scale,
    N: tl.constexpr, BH: tl.constexpr, R: tl.constexpr, DR: tl.constexpr, S: tl.constexpr,
    BS: tl.constexpr, K: tl.constexpr, WINDOW: tl.constexpr, SPLITS: tl.constexpr,
    SINK: tl.constexpr, FP8: tl.constexpr, GRAIN: tl.constexpr, ROPE_GRAIN: tl.constexpr,
):  # fmt: skip
    """Grid (T * HB, SPLITS). out [SPLITS, T, N, R], normalised; lse [SPLITS, N, T]. K > 0: entries
    that `selected` names, else those up to the row's position."""
    HB: tl.constexpr = (N + BH - 1) // BH
    row = (tl.program_id(0) // HB).to(tl.int64)
    split = tl.program_id(1)
    head = tl.program_id(0) % HB * BH + tl.arange(0, BH)
    o_r = tl.arange(0, R)
    b_q = tl.load(
        q_latent + row * stride_q_row + head[:, None] * stride_q_head + o_r[None, :],
        mask=(head < N)[:, None], other=0.0,
    )  # fmt: skip
    if DR > 0:
        o_d = tl.arange(0, DR)
        b_rope = tl.load(
            q_rope + row * stride_qr_row + head[:, None] * stride_qr_head + o_d[None, :],
            mask=(head < N)[:, None], other=0.0,
        )  # fmt: skip
    table += tl.load(seq + row).to(tl.int64) * stride_table
    selected += row * stride_selected
    length = tl.load(positions + row).to(tl.int32) + 1
    if K > 0:
        SHARE: tl.constexpr = ((K + BS - 1) // BS + SPLITS - 1) // SPLITS * BS
        count = SHARE
        first = split * SHARE
        last = K
    else:
        first = tl.maximum(length - WINDOW, 0) if WINDOW > 0 else 0
        count = tl.cdiv(tl.cdiv(length - first, BS), SPLITS) * BS
        first += split * count
        last = tl.minimum(first + count, length)
        count = tl.maximum(last - first, 1)  # a loop that always runs: see README.md

    largest = tl.full((BH,), NEGATIVE, tl.float32)
    total = tl.zeros((BH,), tl.float32)
    acc = tl.zeros((BH, R), tl.float32)
    UNIT: tl.constexpr = FP8_UNIT if FP8 else 1.0
    scale_latent = scale / UNIT
    for step in range(0, count, BS):
        at = entries(selected, first + step, last, length, BS, K)
        seen = at >= 0
        if K == 0 and WINDOW == 0 and S % BS == 0:  # a step lies in one page
            begin = first + step
            page = tl.load(table + begin // S, mask=begin < last, other=0).to(tl.int64)
        else:
            page = tl.load(table + at // S, mask=seen, other=0).to(tl.int64)
        entry = at % S
        place = page * stride_latent_page + entry * (stride_latent * GRAIN)
        b_kv = tl.load(latent + place[:, None] + o_r[None, :], mask=seen[:, None], other=0.0)
        if FP8:
            place = page * stride_scale_page + entry * stride_scale
            o_t = tl.arange(0, R // TILE)
            b_s = tl.load(latent_scale + place[:, None] + o_t[None, :], mask=seen[:, None],
                          other=0.0)  # fmt: skip
            tiles = tl.reshape(b_kv.to(b_q.dtype), (BS, R // TILE, TILE))
            b_s = (b_s * UNIT).to(b_q.dtype)
            b_kv = tl.reshape(tiles * b_s[:, :, None], (BS, R))
        scores = tl.dot(b_q, tl.trans(b_kv), input_precision="ieee")
        if DR > 0:
            place = page * stride_rope_page + entry * (stride_rope * ROPE_GRAIN)
            b_k = tl.load(k_rope + place[:, None] + o_d[None, :], mask=seen[:, None], other=0.0)
            more = tl.dot(b_rope, tl.trans(b_k), input_precision="ieee")
        # the parts are scaled before they are added: a sum alone becomes a chain of products
        scores *= scale_latent
        if DR > 0:
            scores += more * scale
        scores = tl.where(seen[None, :], scores, NEGATIVE)
        # Always true and changes nothing. Without a branch the compiler sees a chain of products
        # and gives the first the layout of the second, in which both warp groups make all scores.
        if length > 0:
            scores += 0.0
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        base = tl.where(larger == NEGATIVE, 0.0, larger)  # nothing seen so far
        p = tl.exp2(scores - base[:, None])
        old = tl.exp2(largest - base)
        total = total * old + tl.sum(p, axis=1)
        largest = larger
        acc = acc * old[:, None]
        acc = tl.dot(p.to(b_kv.dtype), b_kv, acc, input_precision="ieee")
    if SINK:
        # one split has the sink in its denominator
        logit = tl.load(sink + head, mask=(head < N) & (split == 0), other=NEGATIVE)
        logit = logit.to(tl.float32) * LOG2_E
        larger = tl.maximum(largest, logit)
        base = tl.where(larger == NEGATIVE, 0.0, larger)
        old = tl.exp2(largest - base)
        total = total * old + tl.exp2(logit - base)
        acc = acc * old[:, None]
        largest = larger
    empty = total == 0.0
    total = tl.where(empty, 1.0, total)
    acc = acc / (total * UNIT)[:, None]
    p_out = out + split.to(tl.int64) * stride_out_split + row * stride_out_row
    tl.store(p_out + head[:, None] * stride_out_head + o_r[None, :], acc.to(out.dtype.element_ty),
             mask=(head < N)[:, None])  # fmt: skip
    if SPLITS > 1:
        weight = tl.where(empty, NEGATIVE, largest + tl.log2(total))
        tl.store(lse + (split * N + head).to(tl.int64) * rows + row, weight, mask=head < N)
