"""Context parallelism's arithmetic against counting by hand: who holds what, work, what is sent."""

import random

import pytest

from day0.registry.zigzag import (
    LAYOUTS,
    break_even,
    causal_work,
    halo_tokens,
    imbalance,
    relayout_bytes,
    spans,
    state_bytes,
)

RANKS = (2, 3, 8, 32, 64)
ALIGNS = (1, 16, 48, 64)


def held(layout: str, num_tokens: int, n: int, align: int = 1) -> list[list[int]]:
    """Token numbers of every rank."""
    return [
        [token for first, end, step in rank for token in range(first, end, step)]
        for rank in spans(layout, num_tokens, n, align)
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_token_is_held_once_and_in_order(layout: str, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(20):
        n, align = draw.choice(RANKS), draw.choice(ALIGNS)
        num_tokens = draw.randint(1, 40 * n)
        tokens = held(layout, num_tokens, n, align)
        assert sorted(token for rank in tokens for token in rank) == list(range(num_tokens))
        assert all(rank == sorted(rank) for rank in tokens)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_work_is_what_counting_gives(layout: str, seed: int) -> None:
    draw = random.Random(seed)
    n, align = draw.choice(RANKS), draw.choice(ALIGNS)
    num_tokens = draw.randint(n, 4000)
    counted = [sum(token + 1 for token in rank) for rank in held(layout, num_tokens, n, align)]
    assert [causal_work(rank) for rank in spans(layout, num_tokens, n, align)] == counted
    assert sum(counted) == num_tokens * (num_tokens + 1) // 2
    worst = max(counted) * n / sum(counted)
    assert imbalance(layout, num_tokens, n, align) == pytest.approx(worst, rel=1e-12)


@pytest.mark.parametrize("align", ALIGNS)
@pytest.mark.parametrize("n", [2, 4, 6, 8, 16, 32, 64])
def test_zigzag_is_within_3_percent_where_units_come_out_even(n: int, align: int) -> None:
    unit = 2 * n * align
    for about in (8192, 50_000, 131_072, 2**20):
        num_tokens = max(about // unit, 1) * unit
        assert imbalance("zigzag", num_tokens, n, align) <= 1.03
        work = [causal_work(rank) for rank in spans("zigzag", num_tokens, n, align)]
        assert min(work) * n / sum(work) >= 0.97


@pytest.mark.parametrize("align", ALIGNS)
def test_else_a_block_is_at_most_one_unit_off(align: int, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(40):
        n = draw.randint(2, 64)
        num_tokens = draw.randint(8192, 2**20)
        even = num_tokens / (2 * n)
        blocks = [span for rank in spans("zigzag", num_tokens, n, align) for span in rank]
        assert all(abs(end - first - even) <= align for first, end, _ in blocks)
        assert all(first % align == 0 or first == num_tokens for first, _, _ in blocks)


def test_contiguous_is_almost_twice_as_much_on_the_last_rank() -> None:
    assert imbalance("contiguous", 2**20, 8) == pytest.approx(2 - 1 / 8, rel=1e-5)
    assert imbalance("interleaved", 2**20, 8) == pytest.approx(1, rel=1e-4)


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="spiral.*contiguous, zigzag, interleaved"):
        spans("spiral", 8, 2)


@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
def test_states_cost_the_same_at_any_length_and_less_from_the_break_even_on(
    layout: str, seed: int
) -> None:
    draw = random.Random(seed)
    for _ in range(20):
        heads, size, hidden = draw.randint(1, 96), draw.choice((64, 128)), 1024
        n = draw.choice(RANKS)
        elements = heads * size * 2 * size
        passed = state_bytes(elements, layout, n)
        segments = n if layout == "contiguous" else 2 * n
        assert passed == segments * elements * 4
        length = break_even(elements, hidden, layout, n)
        assert relayout_bytes(length, hidden, n) >= passed
        assert relayout_bytes(length - n, hidden, n) < passed


def test_interleaved_tokens_have_no_states_to_hand_on() -> None:
    with pytest.raises(ValueError, match="no segments"):
        state_bytes(128, "interleaved", 2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_halo_is_what_the_taps_reach_and_nobody_here_holds(layout: str, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(20):
        n, num_tokens, taps = draw.choice((2, 3, 5)), draw.randint(1, 60), draw.randint(1, 6)
        for rank, own in zip(
            spans(layout, num_tokens, n), held(layout, num_tokens, n), strict=True
        ):
            reached = {token - back for token in own for back in range(taps) if token >= back}
            assert set(halo_tokens(rank, taps)) == reached - set(own)
