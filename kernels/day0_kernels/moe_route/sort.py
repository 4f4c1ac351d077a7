"""Stable order of rows by expert, and the tiles of a grouped matrix product.

Few rows: every row counts the rows before it, one launch, no scratch. Many rows: counts per block,
then every block places its own rows, two launches. No atomics on results: the order is the same in
every run. Letters: N rows, E experts, EP > E a power of two (bin E: kept elsewhere), BR rows of a
program, BJ rows compared at a time, NT tiles.
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.arguments import check_shape
from day0_kernels.moe_route.launch import (
    ALL_PAIRS_ROWS,
    SORT_BLOCK,
    power_of_two,
    sort_workspace_bytes,
)


@triton.jit
def load_key(experts, at, mask, E: tl.constexpr, other: tl.constexpr):
    """Expert of the rows `at`; E where it is none of 0..E-1, `other` where masked."""
    e = tl.load(experts + at, mask=mask, other=0)
    e = tl.where((e >= 0) & (e < E), e, E)
    return tl.where(mask, e, other)


@triton.jit
def rank_block(experts, order, first, N, E: tl.constexpr, BR: tl.constexpr, BJ: tl.constexpr):
    """Place the rows first .. first + BR - 1 by counting those that sort before them."""
    o_r = first + tl.arange(0, BR)
    mine = load_key(experts, o_r, o_r < N, E, E + 1)
    rank = tl.zeros((BR,), dtype=tl.int32)
    for start in range(0, N, BJ):
        o_j = start + tl.arange(0, BJ)
        other = load_key(experts, o_j, o_j < N, E, E + 1)
        before = (other[None, :] < mine[:, None]) | (
            (other[None, :] == mine[:, None]) & (o_j[None, :] < o_r[:, None])
        )
        rank += tl.sum(before.to(tl.int32), axis=1)
    tl.store(order + rank, o_r, mask=o_r < N)


@triton.jit
def write_tiles(count, offsets, tiles, NT, E: tl.constexpr, EP: tl.constexpr, BM: tl.constexpr):
    """Offsets and tiles from the rows per expert `count` [EP], whose bins from E on are 0."""
    o_e = tl.arange(0, EP)
    end = tl.cumsum(count, axis=0)
    begin = end - count
    tl.store(offsets + o_e, begin, mask=o_e <= E)
    needed = (count + BM - 1) // BM
    at = tiles + (tl.cumsum(needed, axis=0) - needed) * 4
    total = tl.sum(needed, axis=0)
    for i in range(0, tl.max(needed, axis=0)):
        used = i < needed
        tl.store(at + i * 4, o_e, mask=used)
        tl.store(at + i * 4 + 1, begin + i * BM, mask=used)
        tl.store(at + i * 4 + 2, end, mask=used)
        tl.store(at + i * 4 + 3, total + o_e * 0, mask=used)
    for start in range(total * 4, NT * 4, EP):
        tl.store(tiles + start + o_e, o_e * 0 - 1, mask=start + o_e < NT * 4)


@triton.jit
def count_all(experts, N, E: tl.constexpr, EP: tl.constexpr, BC: tl.constexpr):
    """Rows per expert [EP]; bins from E on are 0."""
    count = tl.zeros((EP,), dtype=tl.int32)
    for start in range(0, N, BC):
        o_j = start + tl.arange(0, BC)
        count += tl.histogram(load_key(experts, o_j, o_j < N, E, E), EP)
    return tl.where(tl.arange(0, EP) < E, count, 0)


@triton.jit
def rank_kernel(experts, order, offsets, tiles, N, NT, E: tl.constexpr, EP: tl.constexpr,
                BM: tl.constexpr, BR: tl.constexpr, BJ: tl.constexpr):  # fmt: skip
    """Grid (1 + N / BR,): the first program writes offsets and tiles, the others the order."""
    pid = tl.program_id(0)
    if pid == 0:
        write_tiles(count_all(experts, N, E, EP, 512), offsets, tiles, NT, E, EP, BM)
    else:
        rank_block(experts, order, (pid - 1) * BR, N, E, BR, BJ)


@triton.jit
def count_kernel(experts, counts, N, E: tl.constexpr, EP: tl.constexpr, BR: tl.constexpr):
    """Grid (N / BR,): rows per expert of one block, into `counts` [blocks, EP]."""
    block = tl.program_id(0)
    o_r = block * BR + tl.arange(0, BR)
    # a masked row would land in bin E, which belongs to real rows kept elsewhere
    key = load_key(experts, o_r, o_r < N, E, E)
    count = tl.histogram(key, EP)
    absent = tl.sum((o_r >= N).to(tl.int32), axis=0)
    o_e = tl.arange(0, EP)
    tl.store(counts + block * EP + o_e, tl.where(o_e == E, count - absent, count))


@triton.jit
def place_kernel(experts, counts, order, offsets, tiles, N, NT, NB, E: tl.constexpr,
                 EP: tl.constexpr, BM: tl.constexpr, BR: tl.constexpr, BJ: tl.constexpr,
                 BB: tl.constexpr):  # fmt: skip
    """Grid (1 + N / BR,): program 0 writes offsets and tiles, the others place their block."""
    pid = tl.program_id(0)
    block = pid - 1
    o_e = tl.arange(0, EP)
    total = tl.zeros((EP,), dtype=tl.int32)
    earlier = tl.zeros((EP,), dtype=tl.int32)
    for start in range(0, NB, BB):
        o_b = start + tl.arange(0, BB)
        part = tl.load(counts + o_b[:, None] * EP + o_e[None, :], mask=(o_b < NB)[:, None], other=0)
        total += tl.sum(part, axis=0)
        earlier += tl.sum(tl.where((o_b < block)[:, None], part, 0), axis=0)
    if pid == 0:
        write_tiles(tl.where(o_e < E, total, 0), offsets, tiles, NT, E, EP, BM)
    else:
        base = tl.cumsum(total, axis=0) - total + earlier
        o_r = block * BR + tl.arange(0, BR)
        mine = load_key(experts, o_r, o_r < N, E, E + 1)
        rank = tl.gather(base, tl.minimum(mine, EP - 1), axis=0)
        for start in range(0, BR, BJ):
            o_j = block * BR + start + tl.arange(0, BJ)
            other = load_key(experts, o_j, o_j < N, E, E + 1)
            same = (other[None, :] == mine[:, None]) & (o_j[None, :] < o_r[:, None])
            rank += tl.sum(same.to(tl.int32), axis=1)
        tl.store(order + rank, o_r, mask=o_r < N)


def check(experts, order, offsets, tiles, num_experts, block_m) -> None:
    """Raise ValueError for what the kernels cannot take."""
    if not experts.is_contiguous():
        raise ValueError("experts must be contiguous")
    check_shape("order", order, "T*k", (experts.numel(),))
    check_shape("offsets", offsets, "E+1", (num_experts + 1,))
    # fewer tiles than this lose rows
    least = max(min(experts.numel(), experts.numel() // block_m + num_experts), 1)
    if tiles.dim() != 2 or tiles.shape[1] != 4 or tiles.shape[0] < least:
        have = list(tiles.shape)
        raise ValueError(f"tiles must be [n, 4] with n of at least {least}, got {have}")


def moe_sort(
    experts: torch.Tensor,
    order: torch.Tensor,
    offsets: torch.Tensor,
    tiles: torch.Tensor,
    *,
    num_experts: int,
    block_m: int,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write `order`, `offsets` and `tiles`, all int32; see reference.py.

    `workspace` (uint8, `sort_workspace_bytes`) is needed by many rows; without it scratch is
    allocated. Raises ValueError for a wrong shape.
    """
    check(experts, order, offsets, tiles, num_experts, block_m)
    rows, padded, most = experts.numel(), power_of_two(num_experts + 1), tiles.shape[0]
    shape = {"E": num_experts, "EP": padded, "BM": block_m}
    if rows <= ALL_PAIRS_ROWS:
        block = 32 if rows <= 1024 else 64
        rank_kernel[(1 + triton.cdiv(rows, block),)](
            experts, order, offsets, tiles, rows, most, BR=block, BJ=128, num_warps=4, **shape,
        )  # fmt: skip
        return
    needed = sort_workspace_bytes(num_rows=rows, num_experts=num_experts)
    if workspace is None:
        workspace = torch.empty(needed, dtype=torch.uint8, device=experts.device)
    if workspace.dtype != torch.uint8 or workspace.numel() < needed:
        have = f"{workspace.numel()} of {workspace.dtype}"
        raise ValueError(f"workspace must be uint8 with at least {needed} elements, got {have}")
    counts = workspace[:needed].view(torch.int32)
    blocks = triton.cdiv(rows, SORT_BLOCK)
    count_kernel[(blocks,)](
        experts, counts, rows, E=num_experts, EP=padded, BR=SORT_BLOCK, num_warps=4
    )
    place_kernel[(1 + blocks,)](
        experts, counts, order, offsets, tiles, rows, most, blocks, BR=SORT_BLOCK, BJ=32, BB=16,
        num_warps=8, **shape,
    )  # fmt: skip
