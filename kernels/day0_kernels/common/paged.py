"""Paged caches: pages [P, S, C] of S entries, table [N, M] of a sequence's pages in order."""

import torch


def history_of(
    pages: torch.Tensor, table: torch.Tensor, lengths: list[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """(entries [sum of lengths, C] of all sequences, one after another; borders [N+1])."""
    size = pages.shape[1]
    found = []
    for row, length in enumerate(lengths):
        at = torch.arange(length, device=pages.device)
        found.append(pages[table[row, at // size].long(), at % size])
    borders = torch.tensor([0, *lengths], device=pages.device).cumsum(0)
    return torch.cat(found) if found else pages[:0, 0], borders


def lengths_of(positions: torch.Tensor, seq: torch.Tensor, count: int) -> list[int]:
    """Entries that each of `count` sequences has after this step: one more than its last row's
    position; 0 without rows."""
    lengths = torch.zeros(count, dtype=torch.int64, device=positions.device)
    lengths.scatter_reduce_(0, seq.long(), positions.long() + 1, "amax")
    return [int(length) for length in lengths.tolist()]


def in_pages(
    values: torch.Tensor, lengths: list[int], size: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """(pages, table): contiguous entries [sum of lengths, C] laid out in shuffled pages. Page 0 and
    the ends of last pages hold NaN, which nothing may read."""
    counts = [-(-length // size) for length in lengths]
    numbers = torch.randperm(sum(counts), generator=generator, device=values.device) + 1
    table = torch.zeros(len(lengths), max(counts, default=0), dtype=torch.int64,
                        device=values.device)  # fmt: skip
    for row, own in enumerate(numbers.split(counts)):
        table[row, : len(own)] = own
    return also_in_pages(values, table, lengths, size), table


def also_in_pages(
    values: torch.Tensor, table: torch.Tensor, lengths: list[int], size: int
) -> torch.Tensor:
    """Pages of one more part of the entries that `table` places; whole numbers are poisoned with
    their largest value."""
    shape = (sum(-(-length // size) for length in lengths) + 1, size, values.shape[1])
    if values.is_floating_point():
        pages = torch.full(shape, float("nan"), device=values.device).to(values.dtype)
    else:
        pages = values.new_full(shape, torch.iinfo(values.dtype).max)
    first = 0
    for own, length in zip(table, lengths, strict=True):
        at = torch.arange(length, device=values.device)
        pages[own[at // size], at % size] = values[first : first + length]
        first += length
    return pages
