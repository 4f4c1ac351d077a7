"""The two resources of the engine, pages and slots. Number 0 is padding, owned by nobody."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from day0.ir.cache import CacheSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`page_size` tokens a page, `num_pages` by span, `num_slots` sequences at once, `chunk` rows
    of a prefill step at most, `drafts` tokens of a sequence that a verify step checks. `replay`:
    what lies in slots is kept once, and updates of accepted tokens are done again."""

    page_size: int
    num_pages: Mapping[int, int]
    num_slots: int
    chunk: int = 512
    drafts: int = 0
    replay: bool = False

    @property
    def rows(self) -> int:
        """Rows of a sequence in a verify step: its next token and the drafts."""
        return self.drafts + 1

    @property
    def versions(self) -> int:
        """Places of a sequence in the slotted caches."""
        return 1 if self.replay else self.rows


class Pool:
    """Numbers 1..count, handed out, shared and taken back: a number is free again when all who
    have it have given it back."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(range(count, 0, -1))
        self._owners: dict[int, int] = {}

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self, number: int) -> list[int] | None:
        """`number` fresh numbers, or None when there are not so many."""
        if number > len(self._free):
            return None
        taken = [self._free.pop() for _ in range(number)]
        for one in taken:
            self._owners[one] = 1
        return taken

    def share(self, numbers: Iterable[int]) -> None:
        """One more owner of each; a number that is not out is a bug."""
        for number in numbers:
            if number not in self._owners:
                raise AssertionError(f"{number} was not handed out")
            self._owners[number] += 1

    def give(self, numbers: Iterable[int]) -> None:
        """Take numbers back from one owner each; one that is not out is a bug."""
        for number in numbers:
            if number not in self._owners:
                raise AssertionError(f"{number} was not handed out")
            self._owners[number] -= 1
            if not self._owners[number]:
                del self._owners[number]
                self._free.append(number)


def paged(cache: CacheSpec) -> bool:
    """Whether a cache lies in pages (else in slots)."""
    return cache.growth in ("per-token", "pooled") or (
        cache.growth == "window" and not cache.slotted
    )


def span_of(cache: CacheSpec) -> int:
    """The page table a paged cache uses: 0 for all tokens, else its window."""
    return cache.span if cache.growth == "window" else 0


def spans(caches: Iterable[CacheSpec]) -> tuple[int, ...]:
    """The page tables a model needs."""
    return tuple(sorted({span_of(cache) for cache in caches if paged(cache)}))


def first_kept(span: int, start: int) -> int:
    """First position still readable by the rows that come after `start` tokens: all, or the
    window's."""
    return max(0, start - span + 1) if span else 0
