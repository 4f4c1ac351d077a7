"""One launch: a program for each row and block of channels of either part. Letters: C and C_1
channels of the parts, S entries of a page."""

import torch
import triton
import triton.language as tl

from day0_kernels.common.arguments import check_shape

BLOCK, NUM_WARPS = 1024, 4


@triton.jit
def write(x, pages, row, page, entry, stride_x, stride_page, stride_entry, block, exists,
          C: tl.constexpr, BC: tl.constexpr):  # fmt: skip
    channel = block * BC + tl.arange(0, BC)
    mask = (channel < C) & exists
    value = tl.load(x + row * stride_x + channel, mask=mask, other=0.0)
    target = pages + page * stride_page + entry * stride_entry + channel
    tl.store(target, value.to(pages.dtype.element_ty), mask=mask)


# sizes that change from step to step, which must not compile anew
@triton.jit(do_not_specialize=["stride_table", "num_sequences", "num_pages", "num_entries"])
def cache_write_kernel(
    x, pages, x_1, pages_1, table, positions, seq, stride_x, stride_page, stride_entry,
    stride_x_1, stride_page_1, stride_entry_1, stride_table, num_sequences, num_pages, num_entries,
    C: tl.constexpr, C_1: tl.constexpr, BC: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """Grid (T, C / BC + C_1 / BC)."""
    BLOCKS: tl.constexpr = (C + BC - 1) // BC
    row = tl.program_id(0).to(tl.int64)
    position = tl.load(positions + row).to(tl.int64)
    number = tl.load(seq + row).to(tl.int64)
    inside = (position >= 0) & (position < num_entries) & (number >= 0) & (number < num_sequences)
    page = tl.load(table + number * stride_table + position // S, mask=inside, other=0)
    page = page.to(tl.int64)
    exists = (page > 0) & (page < num_pages)
    block = tl.program_id(1)
    if block < BLOCKS:
        write(x, pages, row, page, position % S, stride_x, stride_page, stride_entry, block,
              exists, C, BC)  # fmt: skip
    else:
        write(x_1, pages_1, row, page, position % S, stride_x_1, stride_page_1, stride_entry_1,
              block - BLOCKS, exists, C_1, BC)  # fmt: skip


def cache_write(
    x: torch.Tensor,
    pages: torch.Tensor,
    table: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
    x_1: torch.Tensor | None = None,
    pages_1: torch.Tensor | None = None,
) -> None:
    """See reference.py. Allocates nothing, asks the host nothing. Raises ValueError for a wrong
    shape."""
    rows, channels = x.shape
    count, size, more = pages.shape[0], pages.shape[1], 0
    check_shape("pages", pages, "P, S, C", (count, size, channels))
    check_shape("positions", positions, "T", (rows,))
    check_shape("seq", seq, "T", (rows,))
    check_shape("table", table, "N, M", (table.shape[0], table.shape[1]))
    if (x_1 is None) != (pages_1 is None):
        raise ValueError("x_1 and pages_1 must be given together")
    if x_1 is not None and pages_1 is not None:
        more = x_1.shape[1]
        check_shape("x_1", x_1, "T, C_1", (rows, more))
        check_shape("pages_1", pages_1, "P, S, C_1", (count, size, more))
    if rows == 0 or table.shape[1] == 0:
        return
    # pointers of an absent part are never used
    x_1, pages_1 = (x, pages) if x_1 is None or pages_1 is None else (x_1, pages_1)
    block = min(BLOCK, triton.next_power_of_2(max(channels, more)))
    cache_write_kernel[(rows, triton.cdiv(channels, block) + triton.cdiv(more, block))](
        x, pages, x_1, pages_1, table, positions, seq, x.stride(0), *pages.stride()[:2],
        x_1.stride(0), *pages_1.stride()[:2], table.stride(0), table.shape[0], count,
        table.shape[1] * size, C=channels, C_1=more, BC=block, S=size, num_warps=NUM_WARPS,
    )  # fmt: skip
