"""Pages and slots: handed out once, taken back once; page sizes that pools fit into."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from day0.ir.cache import CacheSpec, page_size
from day0.ir.tensor import TensorSpec
from day0.runtime.pools import Pool, first_kept, paged, span_of, spans


def cache(growth: str, **fields) -> CacheSpec:
    parts = (("part", TensorSpec(dims=(3,))),)
    return CacheSpec(name=f"{growth}{fields}", growth=growth, parts=parts, **fields)


def test_numbers_are_handed_out_once() -> None:
    pool = Pool(5)
    first, second = pool.take(2), pool.take(3)
    assert first is not None
    assert second is not None
    assert sorted([*first, *second]) == [1, 2, 3, 4, 5]  # 0 is padding
    assert (pool.free, pool.count) == (0, 5)
    assert pool.take(1) is None
    assert pool.take(0) == []
    pool.give(first)
    assert pool.free == 2
    assert sorted(pool.take(2) or ()) == sorted(first)


def test_too_many_takes_nothing() -> None:
    pool = Pool(3)
    assert pool.take(4) is None
    assert pool.free == 3


@pytest.mark.parametrize("number", [0, 1, 4, 9], ids=["padding", "given", "free", "foreign"])
def test_giving_what_is_not_out_is_a_bug(number: int) -> None:
    pool = Pool(4)
    pool.give(pool.take(1) or ())
    with pytest.raises(AssertionError, match=f"{number} was not handed out"):
        pool.give([number])


@given(st.integers(0, 12), st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=60))
def test_a_pool_is_a_set(count: int, actions: list[tuple[bool, int]]) -> None:
    pool, out = Pool(count), set()
    for takes, number in actions:
        if takes:
            taken = pool.take(number)
            assert (taken is None) == (number > count - len(out))
            assert not out & set(taken or ())
            out |= set(taken or ())
        else:
            back = list(out)[:number]
            pool.give(back)
            out -= set(back)
        assert pool.free == count - len(out)
        assert out <= set(range(1, count + 1))


@pytest.mark.parametrize(
    ("every", "size"),
    [((), 16), ((16,), 16), ((3,), 18), ((4, 6), 24), ((5, 7), 35), ((64,), 64), ((2, 128), 128)],
    ids=str,
)
def test_page_size(every: tuple[int, ...], size: int) -> None:
    """At least 16 tokens, and whole pools of every size."""
    caches = [cache("pooled", every=number) for number in every]
    caches += [cache("per-token"), cache("window", span=9), cache("per-sequence")]
    assert page_size(caches) == size


def test_where_a_cache_lies() -> None:
    kinds = {
        cache("per-token"): (True, 0),
        cache("pooled", every=4): (True, 0),
        cache("window", span=9): (True, 9),
        cache("window", span=3, slotted=True): (False, None),
        cache("per-sequence"): (False, None),
    }
    for one, (in_pages, span) in kinds.items():
        assert paged(one) == in_pages
        assert span is None or span_of(one) == span
    assert spans(kinds) == (0, 9)
    assert spans([cache("per-sequence")]) == ()


@pytest.mark.parametrize(
    ("span", "start", "first"),
    [(0, 50, 0), (5, 0, 0), (5, 4, 0), (5, 5, 1), (5, 50, 46), (1, 7, 7)],
)
def test_first_kept(span: int, start: int, first: int) -> None:
    """The row at `start` reads itself and span - 1 before it."""
    assert first_kept(span, start) == first
