"""What sequences share and copy: pages by reference, the state in a slot by value."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from day0.runtime.pools import Pool, paged, span_of
from day0.runtime.request import Request
from day0.runtime.storage import Storage

# "cache.part" or "cache.part.scale" of each storage -> a copy of one slot's tensor
State = tuple[Mapping[str, torch.Tensor], ...]


@dataclass(frozen=True, slots=True)
class Places:
    """The storages that lie under one set of page tables and slots: a model's, and those of what
    drafts for it."""

    storages: tuple[Storage, ...]

    def slots(self) -> tuple[dict[str, torch.Tensor], ...]:
        """All buffers that lie in slots, by "cache.part"."""
        return tuple(dict(_slotted(storage)) for storage in self.storages)

    def state(self, slot: int) -> State:
        """Copies of all that a slot holds."""
        return tuple(
            {name: buffer[slot].clone() for name, buffer in _slotted(storage)}
            for storage in self.storages
        )

    def restore(self, slot: int, state: State) -> None:
        """Put a state into a slot."""
        for storage, held in zip(self.storages, state, strict=True):
            for name, buffer in _slotted(storage):
                buffer[slot].copy_(held[name])

    def copy_slot(self, source: int, target: int) -> None:
        for storage in self.storages:
            for _, buffer in _slotted(storage):
                buffer[target].copy_(buffer[source])

    def copy_page(self, span: int, source: int, target: int) -> None:
        """All entries of a page, in every cache of the span."""
        for storage in self.storages:
            for _, buffer in _paged(storage, span):
                buffer[target].copy_(buffer[source])

    def fork(
        self, request: Request, other: Request, pools: Mapping[int, Pool], page_size: int
    ) -> None:
        """Give `other`, which holds a slot, all that `request` has: pages that are full by
        reference, a page that is not (of which there must be one free) and the state by value."""
        self.copy_slot(request.slot, other.slot)
        other.done = request.done
        for span, pool in pools.items():
            table = list(request.pages[span])
            last = table[-1] if table and request.done % page_size else 0
            pool.share(page for page in table if page and page != last)
            if last:
                table[-1:] = pool.take(1) or ()
                self.copy_page(span, last, table[-1])
            other.pages[span] = table

    def pages(self, span: int, numbers: Sequence[int]) -> State:
        """Copies of pages, [pages, ...] each."""
        return tuple(
            {name: buffer[list(numbers)].clone() for name, buffer in _paged(storage, span)}
            for storage in self.storages
        )

    def fill_pages(self, span: int, numbers: Sequence[int], held: State) -> None:
        """Put copies of pages back, under these numbers."""
        for storage, own in zip(self.storages, held, strict=True):
            for name, buffer in _paged(storage, span):
                for number, page in zip(numbers, own[name], strict=True):
                    buffer[number].copy_(page)

    @property
    def state_bytes(self) -> int:
        """Of one slot's state."""
        return sum(buffer[0].nbytes for storage in self.storages for _, buffer in _slotted(storage))

    def page_bytes(self, span: int) -> int:
        """Of one page of the span, in all caches."""
        return sum(
            buffer[0].nbytes for storage in self.storages for _, buffer in _paged(storage, span)
        )


def _slotted(storage: Storage) -> Iterator[tuple[str, torch.Tensor]]:
    for name, cache in storage.caches.items():
        if not paged(cache):
            yield from _buffers(storage, name)


def _paged(storage: Storage, span: int) -> Iterator[tuple[str, torch.Tensor]]:
    for name, cache in storage.caches.items():
        if paged(cache) and span_of(cache) == span:
            yield from _buffers(storage, name)


def _buffers(storage: Storage, cache: str) -> Iterator[tuple[str, torch.Tensor]]:
    for part, buffer in storage.parts[cache].items():
        # FP8 as bytes, for which torch has every way of indexing
        yield f"{cache}.{part}", _bytes(buffer)
    for part, buffer in storage.scales[cache].items():
        yield f"{cache}.{part}.scale", _bytes(buffer)


def _bytes(buffer: torch.Tensor) -> torch.Tensor:
    return buffer.view(torch.uint8) if buffer.element_size() == 1 else buffer
