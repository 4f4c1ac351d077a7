"""The best of a row of scores, exactly. Letters: K picks, C candidates of a segment, W of a row,
B scores of a step.

A sample of a row's scores gives a bound that is passed by more than K scores and by fewer than W,
almost surely; `collect_kernel` names those that pass, in order, `choose_kernel` finds the K best of
them. Where the guess was wrong, `choose_kernel` counts over the whole row: slower, as exact.
"""

import triton
import triton.language as tl


@triton.jit
def ordered(x):
    """uint32 in the order of fp32; both zeros are one, and NaN is as good as infinity."""
    x = tl.where(x == x, x, float("inf"))
    bits = tl.where(x == 0.0, 0.0, x).to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) | -2147483648)).to(tl.uint32, bitcast=True)


@triton.jit
def bound_of(keys, valid, wanted, slack, LOWEST: tl.constexpr):
    """A bound that `wanted` to `wanted + slack` of the valid keys reach, or else the largest one
    with bits from LOWEST up that `wanted` of them reach."""
    bound = tl.zeros((), dtype=tl.uint32)
    count = tl.sum(valid.to(tl.int32), axis=0)
    bit = tl.full((), 31, tl.int32)
    while (bit >= LOWEST) & (count > wanted + slack):
        higher = bound | (tl.full((), 1, tl.uint32) << bit.to(tl.uint32))
        reached = tl.sum(((keys >= higher) & valid).to(tl.int32), axis=0)
        enough = reached >= wanted
        bound = tl.where(enough, higher, bound)
        count = tl.where(enough, reached, count)
        bit -= 1
    return bound


@triton.jit
def reaching(row, total, bound, B: tl.constexpr):
    """How many of a row's scores reach the bound."""
    o_b = tl.arange(0, B)
    count = tl.zeros((), dtype=tl.int32)
    for start in range(0, total, B):
        held = start + o_b < total
        key = ordered(tl.load(row + start + o_b, mask=held, other=0.0))
        count += tl.sum(((key >= bound) & held).to(tl.int32), axis=0)
    return count


@triton.jit
def bound_of_row(row, total, wanted, B: tl.constexpr):
    """The key of the row's score number `wanted`, counted from the best."""
    bound = tl.zeros((), dtype=tl.uint32)
    count = total
    bit = tl.full((), 31, tl.int32)
    while (bit >= 0) & (count > wanted):
        higher = bound | (tl.full((), 1, tl.uint32) << bit.to(tl.uint32))
        reached = reaching(row, total, higher, B)
        enough = reached >= wanted
        bound = tl.where(enough, higher, bound)
        count = tl.where(enough, reached, count)
        bit -= 1
    return bound


@triton.jit
def seen_by(positions, pair, LISTS: tl.constexpr, EVERY: tl.constexpr, POOL: tl.constexpr):
    """Scores of a row: entries or blocks that it sees."""
    entries = (tl.load(positions + pair // LISTS).to(tl.int64) + 1) // EVERY
    return ((entries + POOL - 1) // POOL).to(tl.int32)


@triton.jit(do_not_specialize=["first_pair"])
def collect_kernel(
    scores, positions, numbers, counts, first_pair, stride_scores, margin,
    LISTS: tl.constexpr, EVERY: tl.constexpr, POOL: tl.constexpr, K: tl.constexpr, C: tl.constexpr,
    W: tl.constexpr, SEGMENTS: tl.constexpr, SAMPLE: tl.constexpr, B: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Grid (SEGMENTS, pairs): `numbers` [pairs, SEGMENTS, C] of a segment's scores that reach the
    bound, ascending, the first C of them; `counts` [pairs, SEGMENTS] says how many there were.

    `margin`: standard deviations of the sampled count by which the bound is lowered.
    """
    segment = tl.program_id(0)
    pair = tl.program_id(1).to(tl.int64)
    total = seen_by(positions, first_pair + pair, LISTS, EVERY, POOL)
    row = scores + pair * stride_scores
    bound = tl.zeros((), dtype=tl.uint32)
    if total > W:
        # one of each `step` scores, at places that no period of the text meets
        taken = tl.minimum(total, SAMPLE)
        step = total // taken
        o_s = tl.arange(0, SAMPLE)
        drawn = o_s < taken
        place = o_s * step + ((o_s * 40503) >> 4 & 0xFFFF) % step
        sample = ordered(tl.load(row + place, mask=drawn, other=0.0))
        mean = K * (taken * 1.0 / total)
        wanted = (mean + margin * (tl.sqrt(mean) + 1.0)).to(tl.int32)
        bound = bound_of(sample, drawn, wanted, wanted // 16, 8)
    size = tl.cdiv(tl.cdiv(total, SEGMENTS), B) * B
    begin = segment * size
    end = tl.minimum(begin + size, total)
    out = numbers + (pair * SEGMENTS + segment) * C
    found = tl.zeros((), dtype=tl.int32)
    for start in tl.range(begin, end, B, num_stages=STAGES):
        o_n = start + tl.arange(0, B)
        held = o_n < end
        key = ordered(tl.load(row + o_n, mask=held, other=0.0))
        passed = (key >= bound) & held
        place = found + tl.cumsum(passed.to(tl.int32), axis=0) - 1
        tl.store(out + place, o_n, mask=passed & (place < C))
        found += tl.sum(passed.to(tl.int32), axis=0)
    tl.store(counts + pair * SEGMENTS + segment, found)


@triton.jit
def emit(out, keys, numbers, valid, bound, missing, done, PER: tl.constexpr):
    """Names those above the bound, and of those at it the first `missing`, in order from place
    `done` on; (what is still missing, places used)."""
    ties = (keys == bound) & valid
    rank = tl.cumsum(ties.to(tl.int32), axis=0)
    taken = ((keys > bound) & valid) | (ties & (rank <= missing))
    place = done + tl.cumsum(taken.to(tl.int32), axis=0) - 1
    for number in tl.static_range(PER):
        tl.store(out + place * PER + number, numbers * PER + number, mask=taken)
    used = tl.sum(taken.to(tl.int32), axis=0)
    return missing - tl.minimum(tl.max(rank, axis=0), missing), done + used


@triton.jit(do_not_specialize=["first_pair"])
def choose_kernel(
    scores, positions, numbers, counts, selected, first_pair, stride_scores, stride_selected,
    LISTS: tl.constexpr, EVERY: tl.constexpr, POOL: tl.constexpr, K: tl.constexpr,
    WIDTH: tl.constexpr, PER: tl.constexpr, TAIL: tl.constexpr, C: tl.constexpr, W: tl.constexpr,
    SEGMENTS: tl.constexpr, PK: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Grid (pairs,): WIDTH numbers of each list, ascending, then -1: PER for each of the K best,
    with TAIL those of the open pool of PER tokens. SEGMENTS 0: rows have at most W scores."""
    local = tl.program_id(0).to(tl.int64)
    pair = first_pair + local
    total = seen_by(positions, pair, LISTS, EVERY, POOL)
    wanted = tl.minimum(total, K)
    row = scores + local * stride_scores
    out = selected + pair // LISTS * stride_selected + pair % LISTS * WIDTH
    o_w = tl.arange(0, W)
    number = o_w
    count = tl.zeros((), dtype=tl.int32)
    most = tl.zeros((), dtype=tl.int32)
    if SEGMENTS:
        for segment in range(SEGMENTS):
            own = tl.load(counts + local * SEGMENTS + segment)
            count += own
            most = tl.maximum(most, own)
            number = tl.where(o_w >= count, number + C - own, number)
    else:
        count = total
    fits = (count <= W) & (count >= wanted) & (most <= C)
    if fits:
        valid = o_w < count
        if SEGMENTS:
            number = tl.load(numbers + local * (SEGMENTS * C) + number, mask=valid, other=0)
        key = ordered(tl.load(row + number, mask=valid, other=0.0))
        bound = bound_of(key, valid, wanted, 0, 0)
        missing = wanted - tl.sum(((key > bound) & valid).to(tl.int32), axis=0)
        emit(out, key, number, valid, bound, missing, 0, PER)
    else:
        bound = bound_of_row(row, total, wanted, B)
        missing = wanted - reaching(row, total, bound + 1, B)
        done = tl.zeros((), dtype=tl.int32)
        for start in range(0, total, B):
            o_n = start + tl.arange(0, B)
            held = o_n < total
            key = ordered(tl.load(row + o_n, mask=held, other=0.0))
            missing, done = emit(out, key, o_n, held, bound, missing, done, PER)
    filled = wanted * PER
    o_k = tl.arange(0, PK)
    rest = tl.full((PK,), -1, tl.int64)
    if TAIL:
        position = tl.load(positions + pair // LISTS).to(tl.int64)
        token = (position + 1) // PER * PER + o_k - filled
        rest = tl.where(token <= position, token, -1)
    tl.store(out + o_k, rest.to(tl.int32), mask=(o_k >= filled) & (o_k < WIDTH))
