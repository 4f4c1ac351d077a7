"""Scores of index keys in pages. Letters: R rows, V = R * lists, H heads of a list, D channels,
G groups of 32 channels, S entries of a page, BV (row, list) pairs and BN entries of a tile.

The product is taken with the entries as its rows, so that a thread holds most heads of an entry
and sums over them without its neighbours.
"""

import triton
import triton.language as tl

from day0_kernels.quant.quantise import exponent, largest, to_fp8

PLAIN, EXACT, FOLDED = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
MX = tl.constexpr(32)


@triton.jit
def power(byte):
    """2^(byte - 127) of an E8M0 byte."""
    return (byte << 23).to(tl.float32, bitcast=True)


@triton.jit
def fold(values, byte, N: tl.constexpr, D: tl.constexpr, MODE: tl.constexpr, ROUND: tl.constexpr):
    """(`values` [N, D] under one scale for a row, that scale's byte [N]) from values [N, D] of E4M3
    and bytes [N, D/32]. In fp16 every E4M3 value down to 2^-15 of a row's scale is exact; in E4M3
    steps of 2^-9 remain, 2^-17 of a row's largest value."""
    G: tl.constexpr = D // MX
    top = tl.max(byte, axis=1)
    factor = tl.exp2((byte - top[:, None]).to(tl.float32)).to(tl.float16)
    folded = (values.to(tl.float16).reshape(N, G, MX) * factor[:, :, None]).reshape(N, D)
    if MODE == FOLDED:
        return to_fp8(folded.to(tl.float32), True) if ROUND else folded.to(tl.float8e4nv), top
    return folded, top


@triton.jit
def quantised(x, N: tl.constexpr, D: tl.constexpr, MODE: tl.constexpr, ROUND: tl.constexpr):
    """Rows x [N, D] in MXFP8 with their groups' scales folded as by `fold`."""
    G: tl.constexpr = D // MX
    groups = x.to(tl.float32).reshape(N * G, MX)
    byte = exponent(largest(groups), True)
    code = to_fp8(groups * ((254 - byte) << 23).to(tl.float32, bitcast=True)[:, None], ROUND)
    return fold(code.reshape(N, D), byte.reshape(N, G), N, D, MODE, ROUND)


@triton.jit
def factors_of(weights, row, column, mask, scale, stride_weights, HAS: tl.constexpr):
    """fp32 factor of each (row, list, head) column of a tile."""
    w = tl.full(column.shape, 1.0, tl.float32)
    if HAS:
        w = tl.load(weights + row * stride_weights + column, mask=mask, other=0.0).to(tl.float32)
    return w * scale


@triton.jit
def prepare_kernel(
    q, weights, codes, factors, first_pair, end_pair, scale, stride_q, stride_weights,
    LISTS: tl.constexpr, H: tl.constexpr, D: tl.constexpr, BC: tl.constexpr, HAS: tl.constexpr,
    MODE: tl.constexpr, ROUND: tl.constexpr,
):  # fmt: skip
    """Grid (pairs * H / BC,): queries in MXFP8 under one scale a head, `codes` [pairs, H, D], and
    `factors` [pairs, H] = head weight * scale * that scale."""
    o_c = tl.program_id(0).to(tl.int64) * BC + tl.arange(0, BC)
    o_d = tl.arange(0, D)
    pair = first_pair + o_c // H
    row = pair // LISTS
    column = pair % LISTS * H + o_c % H
    mask = pair < end_pair
    x = tl.load(
        q + (row * stride_q + column * D)[:, None] + o_d[None, :], mask=mask[:, None], other=0.0
    )
    code, top = quantised(x, BC, D, MODE, ROUND)
    w = factors_of(weights, row, column, mask, scale, stride_weights, HAS)
    tl.store(codes + o_c[:, None] * D + o_d[None, :], code, mask=mask[:, None])
    tl.store(factors + o_c, w * power(top), mask=mask)


@triton.jit
def score_kernel(
    q, weights, codes, factors, entry, entry_scale, table, positions, seq, scores,
    first_pair, end_pair, scale, stride_q, stride_weights, stride_page, stride_entry,
    stride_scale_page, stride_scale, stride_table, stride_scores,
    LISTS: tl.constexpr, H: tl.constexpr, D: tl.constexpr, S: tl.constexpr, BV: tl.constexpr,
    BN: tl.constexpr, CHUNK: tl.constexpr, EVERY: tl.constexpr, POOL: tl.constexpr,
    LOCAL: tl.constexpr, RELU: tl.constexpr, HAS: tl.constexpr, MODE: tl.constexpr,
    STAGES: tl.constexpr, ROUND: tl.constexpr,
):  # fmt: skip
    """Grid (pairs / BV, entries / CHUNK): `scores` [pairs, >= entries] fp32, of entries that the
    row sees; POOL > 1: of blocks of POOL entries, the LOCAL last ones infinite.

    EVERY: tokens of a stored entry. `codes` and `factors` come from `prepare_kernel`.
    """
    G: tl.constexpr = D // MX
    base = tl.program_id(0).to(tl.int64) * BV
    begin = tl.program_id(1) * CHUNK
    o_v = tl.arange(0, BV)
    pair = first_pair + base + o_v
    live = pair < end_pair
    row_v = tl.where(live, pair, end_pair - 1) // LISTS
    at = tl.load(positions + row_v).to(tl.int64)
    sees = tl.where(live, (at + 1) // EVERY, 0)
    own = tl.load(seq + row_v).to(tl.int64)
    if begin < tl.max(sees, axis=0):
        o_c = tl.arange(0, BV * H)
        o_d = tl.arange(0, D)
        column_pair = first_pair + base + o_c // H
        mask = column_pair < end_pair
        if MODE == PLAIN:
            row = column_pair // LISTS
            column = column_pair % LISTS * H + o_c % H
            b_q = tl.load(q + (row * stride_q + column * D)[:, None] + o_d[None, :],
                          mask=mask[:, None], other=0.0)  # fmt: skip
            b_w = factors_of(weights, row, column, mask, scale, stride_weights, HAS)
        else:
            b_q = tl.load(codes + (base * H + o_c)[:, None] * D + o_d[None, :],
                          mask=mask[:, None], other=0.0)  # fmt: skip
            b_w = tl.load(factors + base * H + o_c, mask=mask, other=0.0)
        b_q = tl.trans(b_q)
        # a tile of rows mostly lies in one sequence; where it does not, each has its turn
        for number in range(tl.min(own, axis=0), tl.max(own, axis=0) + 1):
            reach = tl.where(own == number, sees, 0)
            end = tl.minimum(tl.max(reach, axis=0), begin + CHUNK).to(tl.int32)
            pages = table + number * stride_table
            for start in tl.range(begin, end, BN, num_stages=STAGES):
                o_n = start + tl.arange(0, BN)
                held = o_n < end
                page = tl.load(pages + o_n // S, mask=held, other=0).to(tl.int64)
                p_k = entry + page * stride_page + (o_n % S) * stride_entry
                b_k = tl.load(p_k[:, None] + o_d[None, :], mask=held[:, None], other=0.0)
                if MODE != PLAIN:
                    p_s = entry_scale + page * stride_scale_page + (o_n % S) * stride_scale
                    packed = tl.load(p_s, mask=held, other=0)
                    byte = (packed[:, None] >> (tl.arange(0, G) * 8)[None, :]) & 255
                    b_k, top = fold(b_k, byte, BN, D, MODE, ROUND)
                acc = tl.dot(b_k, b_q, input_precision="ieee")
                if RELU:
                    acc = tl.maximum(acc, 0.0)
                total = tl.sum((acc * b_w[None, :]).reshape(BN, BV, H), axis=2)
                if MODE != PLAIN:
                    total *= power(top)[:, None]
                seen = o_n[:, None] < reach[None, :]
                p_o = scores + (base + o_v)[None, :] * stride_scores
                if POOL > 1:
                    best = tl.where(seen, total, float("-inf"))
                    best = tl.max(best.reshape(BN // POOL, POOL, BV), axis=1)
                    o_b = start // POOL + tl.arange(0, BN // POOL)
                    back = (reach - 1)[None, :] // POOL - o_b[:, None]
                    best = tl.where((back >= 0) & (back < LOCAL), float("inf"), best)
                    tl.store(p_o + o_b[:, None], best, mask=o_b[:, None] * POOL < reach[None, :])
                else:
                    tl.store(p_o + o_n[:, None], total, mask=seen)
