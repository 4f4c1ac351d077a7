"""Held-out sizes: odd, none of the model's, small, and related as the model's are."""

import random

import pytest

from day0.scaffold.sizes import held_out

REAL = {
    "kda": (7168, 12288, 96, 128),
    "gdn": (2048, 8192, 4096, 32, 16, 128, 64),
    "powers": (128, 256, 512, 1024, 2048, 4096, 8192, 16384),
    "tiny": (24, 32, 4),
    "odd": (3, 5, 7, 15),
}


@pytest.mark.parametrize("sizes", REAL.values(), ids=list(REAL))
def test_real_sizes(sizes: tuple[int, ...]) -> None:
    found = held_out(sizes)
    for size in sizes:
        assert found[size] % 2 == 1
        assert found[size] not in sizes
        assert 3 <= found[size] < 500


def test_products_and_multiples(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(50):
        heads, head, other = draw.sample(range(2, 40), 3)
        found = held_out([heads, head, heads * head, other * head])
        assert all(size % 2 for size in found.values() if size)
        if len({heads, head, heads * head, other * head}) == 4:
            pairs = [(a, b) for a in found for b in found if a > 1 and a * b == heads * head]
            assert found[heads * head] in {found[a] * found[b] for a, b in pairs}
        smallest = min(one for one in found if one > 1 and other * head % one == 0)
        assert found[other * head] % found[smallest] == 0


def test_nothing_and_one_stay() -> None:
    assert held_out([0, 1, 1]) == {0: 0, 1: 1}
