"""Definition of the write of new entries into a paged cache."""

import torch


def cache_write(
    x: torch.Tensor,
    pages: torch.Tensor,
    table: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
) -> None:
    """Write row t of x [T, C] to entry positions[t] of sequence seq[t].

    pages [P, S, C]: P pages of S entries, of which page 0 belongs to nobody; table [N, M]: a
    sequence's pages in order, 0 where it has none (any more): such a row is not kept.
    """
    size = pages.shape[1]
    for row, (position, number) in enumerate(zip(positions.tolist(), seq.tolist(), strict=True)):
        page = int(table[number, position // size])
        if page:
            pages[page, position % size] = x[row].to(pages.dtype)
