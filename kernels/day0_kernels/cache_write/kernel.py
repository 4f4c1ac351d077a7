"""One launch: a program for each row and block of channels. Letters: C channels, S entries."""

import torch
import triton
import triton.language as tl

from day0_kernels.common.arguments import check_shape

BLOCK, NUM_WARPS = 1024, 4


@triton.jit
def cache_write_kernel(
    x, pages, table, positions, seq, stride_x, stride_page, stride_entry, stride_table,
    C: tl.constexpr, BC: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    """Grid (T, C / BC)."""
    row = tl.program_id(0).to(tl.int64)
    position = tl.load(positions + row).to(tl.int64)
    number = tl.load(seq + row).to(tl.int64)
    page = tl.load(table + number * stride_table + position // S).to(tl.int64)
    channel = tl.program_id(1) * BC + tl.arange(0, BC)
    mask = (channel < C) & (page > 0)
    value = tl.load(x + row * stride_x + channel, mask=mask, other=0.0)
    target = pages + page * stride_page + position % S * stride_entry + channel
    tl.store(target, value.to(pages.dtype.element_ty), mask=mask)


def cache_write(
    x: torch.Tensor,
    pages: torch.Tensor,
    table: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
) -> None:
    """See reference.py. Allocates nothing, asks the host nothing. A position beyond the table is
    the caller's error. Raises ValueError for a wrong shape."""
    rows, channels = x.shape
    check_shape("pages", pages, "P, S, C", (pages.shape[0], pages.shape[1], channels))
    check_shape("positions", positions, "T", (rows,))
    check_shape("seq", seq, "T", (rows,))
    if rows == 0:
        return
    block = min(BLOCK, triton.next_power_of_2(channels))
    cache_write_kernel[(rows, triton.cdiv(channels, block))](
        x, pages, table, positions, seq, x.stride(0), pages.stride(0), pages.stride(1),
        table.stride(0), C=channels, BC=block, S=pages.shape[1], num_warps=NUM_WARPS,
    )  # fmt: skip
