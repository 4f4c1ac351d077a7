"""Sizes for held-out cases: odd, small, none of the model's own, and related as the model's are."""

from collections.abc import Iterable, Mapping
from itertools import count


def held_out(sizes: Iterable[int]) -> dict[int, int]:
    """Another size for each; 0 and 1 stay. What is a product of two of the sizes stays one (heads
    x head size = rows), and what has a divisor among them stays a multiple of the smallest.

    It cannot know sums (fused rows); whoever knows the operator mends the case.
    """
    left = sorted({size for size in sizes if size > 1})
    own = set(left)
    result: dict[int, int] = {}
    while left:
        # Products first: what follows can then keep out of their way.
        found = next((size for size in left if _products(size, result)), left[0])
        left.remove(found)
        if products := _products(found, result):
            result[found] = min(products)
            continue
        base = min((other for other in result if found % other == 0), default=1)
        times = result.get(base, 1)
        taken = own | set(result.values())
        result[found] = next(times * odd for odd in count(3, 2) if times * odd not in taken)
    return {0: 0, 1: 1, **result}


def _products(size: int, known: Mapping[int, int]) -> list[int]:
    return [
        value * known[size // other]
        for other, value in known.items()
        if size % other == 0 and size // other in known
    ]
