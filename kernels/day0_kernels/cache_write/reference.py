"""Definition of the write of new entries into a paged cache."""

import torch

from day0_kernels.quant.reference import quant_mx, quant_tile


def cache_write(
    x: torch.Tensor,
    pages: torch.Tensor,
    table: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
    x_1: torch.Tensor | None = None,
    pages_1: torch.Tensor | None = None,
) -> None:
    """Write row t of x [T, C] to entry positions[t] of sequence seq[t]; a second part (values
    beside keys) x_1 [T, C_1] to the same place of its own pages.

    pages [P, S, C], pages_1 [P, S, C_1]: P pages of S entries, of which page 0 belongs to nobody;
    table [N, M]: a sequence's pages in order, 0 where it has none (any more). A row without a page
    is not kept, nor is one whose position, sequence or page number lies outside the table or the
    pages: nothing is ever written for it.
    """
    size, (count, width) = pages.shape[1], table.shape
    for row, (position, number) in enumerate(zip(positions.tolist(), seq.tolist(), strict=True)):
        if not (0 <= position < width * size and 0 <= number < count):
            continue
        page = int(table[number, position // size])
        if not 0 < page < len(pages):
            continue
        pages[page, position % size] = x[row].to(pages.dtype)
        if x_1 is not None and pages_1 is not None:
            pages_1[page, position % size] = x_1[row].to(pages_1.dtype)


def cache_write_quantised(
    x: torch.Tensor,
    pages: torch.Tensor,
    scale_pages: torch.Tensor,
    table: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
    *,
    width: int = 0,
) -> None:
    """`cache_write` of the codes and scales of x [T, C], whose tiles begin anew every `width`
    channels (0: C; a head's).

    pages [P, S, C] in FP8 with scale_pages [P, S, tiles]: fp32 for tiles of 128 channels
    (`quant_tile`), uint8 E8M0 for groups of 32 (`quant_mx`).
    """
    heads = x.reshape(-1, width or x.shape[1])
    codes = torch.empty_like(heads, dtype=pages.dtype)
    tiles = scale_pages.shape[2] * heads.shape[1] // x.shape[1]
    scales = scale_pages.new_empty(len(heads), tiles)
    mx = scale_pages.dtype == torch.uint8
    (quant_mx if mx else quant_tile)(heads, codes, scales)
    cache_write(codes.view(x.shape), pages, table, positions, seq)
    cache_write(scales.view(len(x), -1), scale_pages, table, positions, seq)
