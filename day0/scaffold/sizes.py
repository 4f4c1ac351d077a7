"""Sizes for held-out cases: small and odd, and related as the model's are."""

from collections.abc import Iterable
from itertools import count


def held_out(sizes: Iterable[int]) -> dict[int, int]:
    """Another size for each: what is a product of two of the sizes stays one (heads x head size =
    rows), what is a multiple of one stays a multiple. 1 stays 1.

    It cannot know sums (fused rows); whoever knows the operator mends the case.
    """
    odd = count(3, 2)
    result = {1: 1, 0: 0}
    factors: dict[int, int] = {}
    known: list[int] = []
    for size in sorted({size for size in sizes if size > 1}):
        result[size] = _related(size, known, result, factors, odd)
        known.append(size)
    return result


def _related(
    size: int, known: list[int], result: dict[int, int], factors: dict[int, int], odd: Iterable[int]
) -> int:
    divisors = [other for other in reversed(known) if size % other == 0]
    for other in divisors:
        if size // other in known:
            return result[other] * result[size // other]
    fresh = next(number for number in odd if number not in result.values())
    if not divisors:
        return fresh
    return result[divisors[0]] * factors.setdefault(size // divisors[0], fresh)
