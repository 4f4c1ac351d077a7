"""Scores of index keys in pages. Letters: R rows, V = R * lists, H heads of a list, D channels,
G groups of 32 channels, S entries of a page, BV (row, list) pairs and BN entries of a tile.

The product is taken with the entries as its rows, so that a thread holds most heads of an entry
and sums over them without its neighbours.
"""

import triton
import triton.language as tl

from day0_kernels.quant.quantise import exponent, largest, to_fp8

# queries and keys of one 16 or 32 bit type; E4M3 keys with a scale for each group of 32 channels,
# or with one for each entry
PLAIN, GROUPS, ROWS = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
MX = tl.constexpr(32)


@triton.jit
def power(byte):
    """2^(byte - 127) of an E8M0 byte, 0 of byte 0."""
    return (byte << 23).to(tl.float32, bitcast=True)


@triton.jit
def fold(codes, byte, N: tl.constexpr, D: tl.constexpr, ROUND: tl.constexpr):
    """(E4M3 [N, D] under one scale for a row, that scale [N]) of E4M3 codes and bytes [N, D/32].
    Exact but for values below 2^-6 of the row's scale, which keep steps of 2^-9 of it."""
    top = tl.max(byte, axis=1)
    factor = power(tl.maximum(byte - top[:, None] + 127, 0))[:, :, None]
    groups = codes.to(tl.float16).to(tl.float32).reshape(N, D // MX, MX)
    return to_fp8(groups * factor, ROUND).reshape(N, D), power(top)


@triton.jit
def bytes_of(packed, D: tl.constexpr):
    """[N, D/32] scales of entries [N] that hold four in a word."""
    return (packed[:, None] >> (tl.arange(0, D // MX) * 8)[None, :]) & 255


@triton.jit
def fold_kernel(
    entry, entry_scale, table, codes, factors, capacity, width, stride_page, stride_entry,
    stride_scale_page, stride_scale, stride_table, D: tl.constexpr, S: tl.constexpr,
    BN: tl.constexpr, ROUND: tl.constexpr,
):  # fmt: skip
    """Grid (sequences, capacity / BN): MXFP8 entries in order, `codes` [N, width, D] with
    `factors` [N, width]; what the table's pages hold beyond a sequence's end comes along."""
    number = tl.program_id(0).to(tl.int64)
    o_n = tl.program_id(1) * BN + tl.arange(0, BN)
    o_d = tl.arange(0, D)
    held = o_n < capacity
    page = tl.load(table + number * stride_table + o_n // S, mask=held, other=0).to(tl.int64)
    p_k = entry + page * stride_page + (o_n % S) * stride_entry
    packed = tl.load(entry_scale + page * stride_scale_page + (o_n % S) * stride_scale)
    code = tl.load(p_k[:, None] + o_d[None, :])
    folded, factor = fold(code, bytes_of(packed, D), BN, D, ROUND)
    out = number * width + o_n
    tl.store(codes + out[:, None] * D + o_d[None, :], folded, mask=held[:, None])
    tl.store(factors + out, factor, mask=held)


@triton.jit
def factors_of(weights, row, column, mask, scale, stride_weights, HAS: tl.constexpr):
    """fp32 factor of each (row, list, head) column of a tile."""
    w = tl.full(column.shape, 1.0, tl.float32)
    if HAS:
        w = tl.load(weights + row * stride_weights + column, mask=mask, other=0.0).to(tl.float32)
    return w * scale


@triton.jit(do_not_specialize=["first_pair", "end_pair"])
def prepare_kernel(
    q, weights, codes, factors, first_pair, end_pair, scale, stride_q, stride_weights,
    LISTS: tl.constexpr, H: tl.constexpr, D: tl.constexpr, BC: tl.constexpr, HAS: tl.constexpr,
    ROUND: tl.constexpr,
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
    groups = x.to(tl.float32).reshape(BC * (D // MX), MX)
    byte = exponent(largest(groups), True)
    code = to_fp8(groups * power(254 - byte)[:, None], ROUND).reshape(BC, D)
    folded, factor = fold(code, byte.reshape(BC, D // MX), BC, D, ROUND)
    w = factors_of(weights, row, column, mask, scale, stride_weights, HAS)
    tl.store(codes + o_c[:, None] * D + o_d[None, :], folded, mask=mask[:, None])
    tl.store(factors + o_c, w * factor, mask=mask)


@triton.jit
def queries(p_q, o_d, mask, GROUP: tl.constexpr):
    """[channels of the group, columns]."""
    b_q = tl.load(p_q[:, None] + (o_d + GROUP * MX)[None, :], mask=mask[:, None], other=0.0)
    return tl.trans(b_q)


@triton.jit
def add_group(acc, p_k, b_q, packed, GROUP: tl.constexpr):
    """`acc` and the product of a group of channels times the entries' scales for it."""
    factor = power((packed >> (GROUP * 8)) & 255)
    return acc + tl.dot(tl.load(p_k + GROUP * MX), b_q) * factor[:, None]


@triton.jit(do_not_specialize=["first_pair", "end_pair"])
def score_kernel(
    q, weights, codes, factors, entry, entry_scale, table, positions, seq, scores,
    first_pair, end_pair, scale, stride_q, stride_weights, stride_page, stride_entry,
    stride_scale_page, stride_scale, stride_table, stride_scores,
    LISTS: tl.constexpr, H: tl.constexpr, D: tl.constexpr, S: tl.constexpr, BV: tl.constexpr,
    BN: tl.constexpr, CHUNK: tl.constexpr, EVERY: tl.constexpr, POOL: tl.constexpr,
    LOCAL: tl.constexpr, RELU: tl.constexpr, HAS: tl.constexpr, MODE: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Grid (pairs / BV, entries / CHUNK): `scores` [pairs, >= entries] fp32, of entries that the
    row sees; POOL > 1: of blocks of POOL entries, the LOCAL last ones infinite.

    EVERY: tokens of a stored entry. `codes` and `factors` come from `prepare_kernel`.
    """
    ONE_PAGE: tl.constexpr = S % BN == 0
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
        column_pair = first_pair + base + o_c // H
        mask = column_pair < end_pair
        if MODE == PLAIN:
            row = column_pair // LISTS
            column = column_pair % LISTS * H + o_c % H
            p_q = q + row * stride_q + column * D
            b_w = factors_of(weights, row, column, mask, scale, stride_weights, HAS)
        else:
            p_q = codes + (base * H + o_c) * D
            b_w = tl.load(factors + base * H + o_c, mask=mask, other=0.0)
        o_d = tl.arange(0, D) if MODE != GROUPS else tl.arange(0, MX)
        o_k = tl.arange(0, BN)[:, None] * stride_entry + o_d[None, :]
        o_s = tl.arange(0, BN) * stride_scale
        b_q = queries(p_q, o_d, mask, 0)
        if MODE == GROUPS:
            b_q1 = queries(p_q, o_d, mask, 1)
            b_q2 = queries(p_q, o_d, mask, 2)
            b_q3 = queries(p_q, o_d, mask, 3)
        # a tile of rows mostly lies in one sequence; where it does not, each has its turn
        for number in range(tl.min(own, axis=0), tl.max(own, axis=0) + 1):
            reach = tl.where(own == number, sees, 0)
            end = tl.minimum(tl.max(reach, axis=0), begin + CHUNK).to(tl.int32)
            pages = table + number * stride_table
            for start in tl.range(begin, end, BN, num_stages=STAGES):
                # entries beyond a row's are read too, where the page has them: each is a row of the
                # product by itself, and is not stored
                o_n = start + tl.arange(0, BN)
                if ONE_PAGE:
                    page = tl.load(pages + start // S).to(tl.int64)
                    p_k = entry + page * stride_page + (start % S) * stride_entry + o_k
                    p_s = entry_scale + page * stride_scale_page + (start % S) * stride_scale + o_s
                else:
                    page = tl.load(pages + o_n // S, mask=o_n < end, other=0).to(tl.int64)
                    at_k = entry + page * stride_page + (o_n % S) * stride_entry
                    p_k = at_k[:, None] + o_d[None, :]
                    p_s = entry_scale + page * stride_scale_page + (o_n % S) * stride_scale
                if MODE == GROUPS:
                    packed = tl.load(p_s)
                    acc = tl.zeros((BN, BV * H), dtype=tl.float32)
                    acc = add_group(acc, p_k, b_q, packed, 0)
                    acc = add_group(acc, p_k, b_q1, packed, 1)
                    acc = add_group(acc, p_k, b_q2, packed, 2)
                    acc = add_group(acc, p_k, b_q3, packed, 3)
                else:
                    acc = tl.dot(tl.load(p_k), b_q, input_precision="ieee")
                if RELU:
                    acc = tl.maximum(acc, 0.0)
                total = tl.sum((acc * b_w[None, :]).reshape(BN, BV, H), axis=2)
                if MODE == ROWS:
                    total *= tl.load(p_s)[:, None]
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
