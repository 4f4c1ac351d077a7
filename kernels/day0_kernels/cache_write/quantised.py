"""Rows quantised and put into the pages of a cache by one launch.

Letters: W channels of a head, G of a tile, PER tiles of a head, N tiles of an entry, NG of them in
a program; S entries of a page.
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.arguments import check_shape
from day0_kernels.quant.quantise import exponent, largest, tile_scale, to_fp8
from day0_kernels.quant.reference import FP8, MX_GROUP, TILE

ELEMENTS, NUM_WARPS = 1024, 4  # of a program


# sizes that change from step to step, which must not compile anew
@triton.jit(do_not_specialize=["stride_table", "num_sequences", "num_pages", "num_entries"])
def cache_write_quantised_kernel(
    x, pages, scale_pages, table, positions, seq, stride_x, stride_page, stride_entry,
    stride_scale_page, stride_scale_entry, stride_table, num_sequences, num_pages, num_entries,
    W: tl.constexpr, G: tl.constexpr, PER: tl.constexpr, N: tl.constexpr, NG: tl.constexpr,
    S: tl.constexpr, MX: tl.constexpr, ROUND: tl.constexpr,
):  # fmt: skip
    """Grid (T, N / NG). MX: the scale is an E8M0 byte."""
    row = tl.program_id(0).to(tl.int64)
    position = tl.load(positions + row).to(tl.int64)
    number = tl.load(seq + row).to(tl.int64)
    inside = (position >= 0) & (position < num_entries) & (number >= 0) & (number < num_sequences)
    page = tl.load(table + number * stride_table + position // S, mask=inside, other=0)
    page = page.to(tl.int64)
    entry = position % S
    tile = tl.program_id(1) * NG + tl.arange(0, NG)
    within = (tile % PER)[:, None] * G + tl.arange(0, G)[None, :]  # channel of its head
    channel = (tile // PER)[:, None] * W + within
    m_tile = (tile < N) & (page > 0) & (page < num_pages)
    mask = m_tile[:, None] & (within < W)
    b_x = tl.load(x + row * stride_x + channel, mask=mask, other=0.0).to(tl.float32)
    amax = largest(b_x)
    p_scale = scale_pages + page * stride_scale_page + entry * stride_scale_entry + tile
    if MX:
        byte = exponent(amax, True)
        # at most 247, so the inverse 2^(127 - byte) is a normal number
        factor = ((254 - byte) << 23).to(tl.float32, bitcast=True)
        tl.store(p_scale, byte.to(tl.uint8), mask=m_tile)
    else:
        scale, factor = tile_scale(amax, False)
        tl.store(p_scale, scale, mask=m_tile)
    target = pages + page * stride_page + entry * stride_entry + channel
    tl.store(target, to_fp8(b_x * factor[:, None], ROUND), mask=mask)


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
    """See reference.py. Allocates nothing, asks the host nothing. Raises ValueError for a
    wrong shape or dtype."""
    rows, channels = x.shape
    width = width or channels
    mx = scale_pages.dtype == torch.uint8
    group = MX_GROUP if mx else TILE
    if channels % width:
        raise ValueError(f"x must have a multiple of {width} channels (width), got {channels}")
    per = triton.cdiv(width, group)
    tiles = channels // width * per
    num, size = pages.shape[:2]
    check_shape("pages", pages, "P, S, C", (num, size, channels))
    check_shape("scale_pages", scale_pages, f"P, S, C/{group}", (num, size, tiles))
    check_shape("positions", positions, "T", (rows,))
    check_shape("seq", seq, "T", (rows,))
    check_shape("table", table, "N, M", (table.shape[0], table.shape[1]))
    if pages.dtype != FP8 or scale_pages.dtype not in (torch.uint8, torch.float32):
        have = f"{pages.dtype} and {scale_pages.dtype}"
        raise ValueError(f"pages must be {FP8} with scales in fp32 or uint8, got {have}")
    if rows == 0 or table.shape[1] == 0:
        return
    count = min(ELEMENTS // group, triton.next_power_of_2(tiles))
    cache_write_quantised_kernel[(rows, triton.cdiv(tiles, count))](
        x, pages, scale_pages, table, positions, seq, x.stride(0), *pages.stride()[:2],
        *scale_pages.stride()[:2], table.stride(0), table.shape[0], num, table.shape[1] * size,
        W=width, G=group, PER=per, N=tiles, NG=count, S=size, MX=mx, ROUND=not x.is_cuda,
        num_warps=NUM_WARPS,
    )  # fmt: skip
