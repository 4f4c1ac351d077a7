"""Absorbed latent attention over pages: every entry is read once for a block of heads.

Letters: N heads, BH of them in a program; R latent, DR rope channels; S entries of a page, BS of a
step; K selected entries. Scores are in units of log2.
"""

import triton
import triton.language as tl

NEGATIVE = tl.constexpr(float("-inf"))
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def attend_kernel(
    q_latent, q, latent, k_rope, table, positions, seq, selected, sink, out, lse,
    stride_q_head, stride_q_row, stride_q, stride_latent_page, stride_latent, stride_rope_page,
    stride_rope, stride_table, stride_selected, stride_out_split, stride_out_head, stride_out_row,
    rows, scale,
    N: tl.constexpr, BH: tl.constexpr, R: tl.constexpr, DN: tl.constexpr, DR: tl.constexpr,
    S: tl.constexpr, BS: tl.constexpr, K: tl.constexpr, WINDOW: tl.constexpr,
    SPLITS: tl.constexpr, SINK: tl.constexpr,
):  # fmt: skip
    """Grid (T, N / BH, SPLITS). q_latent [N, T, R]; out [SPLITS, N, T, R], normalised; lse
    [SPLITS, N, T]. K > 0: entries that `selected` names."""
    row = tl.program_id(0).to(tl.int64)
    split = tl.program_id(2)
    head = tl.program_id(1) * BH + tl.arange(0, BH)
    o_r = tl.arange(0, R)
    b_q = tl.load(
        q_latent + head[:, None] * stride_q_head + row * stride_q_row + o_r[None, :],
        mask=(head < N)[:, None], other=0.0,
    )  # fmt: skip
    if DR > 0:
        o_d = tl.arange(0, DR)
        b_rope = tl.load(
            q + row * stride_q + head[:, None] * (DN + DR) + DN + o_d[None, :],
            mask=(head < N)[:, None], other=0.0,
        )  # fmt: skip
    number = tl.load(seq + row).to(tl.int64)
    length = tl.load(positions + row).to(tl.int32) + 1
    first = tl.zeros((), tl.int32)
    last = length
    if K > 0:
        last = tl.full((), K, tl.int32)
    elif WINDOW > 0:
        first = tl.maximum(length - WINDOW, 0)
    share = tl.cdiv(tl.cdiv(last - first, BS), SPLITS) * BS
    begin = first + split * share
    end = tl.minimum(begin + share, last)

    largest = tl.full((BH,), NEGATIVE, tl.float32)
    total = tl.zeros((BH,), tl.float32)
    acc = tl.zeros((BH, R), tl.float32)
    for step in range(begin, end, BS):
        at = step + tl.arange(0, BS)
        seen = at < end
        if K > 0:
            at = tl.load(selected + row * stride_selected + at, mask=seen, other=-1).to(tl.int32)
            seen = (at >= 0) & (at < length)
        page = tl.load(table + number * stride_table + at // S, mask=seen, other=0).to(tl.int64)
        entry = at % S
        b_kv = tl.load(
            latent + (page * stride_latent_page + entry * stride_latent)[:, None] + o_r[None, :],
            mask=seen[:, None], other=0.0,
        )  # fmt: skip
        scores = tl.dot(b_q, tl.trans(b_kv), input_precision="ieee")
        if DR > 0:
            b_k = tl.load(
                k_rope + (page * stride_rope_page + entry * stride_rope)[:, None] + o_d[None, :],
                mask=seen[:, None], other=0.0,
            )  # fmt: skip
            scores += tl.dot(b_rope, tl.trans(b_k), input_precision="ieee")
        scores = tl.where(seen[None, :], scores * scale, NEGATIVE)
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        base = tl.where(larger == NEGATIVE, 0.0, larger)  # nothing seen so far
        p = tl.exp2(scores - base[:, None])
        old = tl.exp2(largest - base)
        total = total * old + tl.sum(p, axis=1)
        acc = acc * old[:, None]
        acc = tl.dot(p.to(b_kv.dtype), b_kv, acc, input_precision="ieee")
        largest = larger
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
    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    place = out + split.to(tl.int64) * stride_out_split + head[:, None] * stride_out_head
    tl.store(place + row * stride_out_row + o_r[None, :], acc.to(out.dtype.element_ty),
             mask=(head < N)[:, None])  # fmt: skip
    if SPLITS > 1:
        weight = tl.where(total == 0.0, NEGATIVE, largest + tl.log2(total))
        tl.store(lse + (split * N + head).to(tl.int64) * rows + row, weight, mask=head < N)


@triton.jit
def merge_kernel(
    part, lse, out, stride_split, stride_head, stride_row, stride_out_head, stride_out_row, rows,
    N: tl.constexpr, R: tl.constexpr, SPLITS: tl.constexpr, PS: tl.constexpr,
):  # fmt: skip
    """Grid (T, N): the splits' results by their weights. PS: the power of two that holds SPLITS."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    split = tl.arange(0, PS)
    exists = split < SPLITS
    weight = tl.load(lse + (split * N + head) * rows + row, mask=exists, other=NEGATIVE)
    largest = tl.max(weight, axis=0)
    share = tl.exp2(weight - tl.where(largest == NEGATIVE, 0.0, largest))
    share = share / tl.maximum(tl.sum(share, axis=0), 1e-30)
    o_r = tl.arange(0, R)
    place = part + split.to(tl.int64)[:, None] * stride_split + head * stride_head
    values = tl.load(place + row * stride_row + o_r[None, :], mask=exists[:, None], other=0.0)
    value = tl.sum(values * share[:, None], axis=0)
    tl.store(out + head * stride_out_head + row * stride_out_row + o_r,
             value.to(out.dtype.element_ty))  # fmt: skip
