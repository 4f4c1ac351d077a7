"""Indexers over paged keys: scores of as many rows as fit, then the best of each row."""

import torch
import triton

from day0_kernels.common.arguments import (
    capability,
    check_choice,
    check_power_of_two,
    check_shape,
)
from day0_kernels.common.workspace import Shapes, cut, total_bytes
from day0_kernels.indexer.launch import (
    FOLDED,
    MX_DIM,
    PLAIN,
    IndexLaunch,
    index_launch,
    up,
    width_of,
)
from day0_kernels.indexer.reference import picks_of
from day0_kernels.indexer.score import fold_kernel, prepare_kernel, score_kernel
from day0_kernels.indexer.select import choose_kernel, collect_kernel
from day0_kernels.quant.reference import MX_GROUP

PREPARED = 64  # (row, list, head) triples of a program that quantises queries
STORED = ("softmax", "mean")
POOLS = ("none", "max", *STORED)
FP8 = torch.float8_e4m3fn


def indexer_paged(
    q: torch.Tensor,
    entry_pages: torch.Tensor,
    table: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
    selected: torch.Tensor,
    head_weights: torch.Tensor | None = None,
    entry_scale_pages: torch.Tensor | None = None,
    *,
    num_heads: int,
    head_dim: int,
    top_k: int,
    scale: float,
    relu: bool = True,
    pool: str = "none",
    block: int = 1,
    unit: str = "token",
    tail: bool = False,
    local_blocks: int = 0,
    num_lists: int = 1,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write `selected` [T, lists * top_k]; see paged.py. Prefill and decode alike; the host is
    asked nothing. `workspace` (uint8, `workspace_bytes`) holds the scratch, without it scratch is
    allocated: 64 MiB at most. Raises ValueError for a wrong shape, stride or attribute."""
    run(
        q, entry_pages, table, positions, seq, selected, head_weights, entry_scale_pages,
        num_heads=num_heads, head_dim=head_dim, top_k=top_k, scale=scale, relu=relu, pool=pool,
        block=block, unit=unit, tail=tail, local_blocks=local_blocks, num_lists=num_lists,
        workspace=workspace, launch=None,
    )  # fmt: skip


def launch_of(
    q: torch.Tensor, entry_pages: torch.Tensor, table: torch.Tensor,
    entry_scale_pages: torch.Tensor | None, *, num_heads: int, top_k: int, pool: str, block: int,
    unit: str, tail: bool, num_lists: int,
) -> IndexLaunch:  # fmt: skip
    """The launch for these tensors; the table's width bounds what a row can see."""
    picks, _ = picks_of(top_k=top_k, pool=pool, block=block, unit=unit, tail=tail)
    return index_launch(
        capability(entry_pages), num_rows=len(q), num_lists=num_lists, num_sequences=len(table),
        heads=num_heads // num_lists, head_dim=entry_pages.shape[2],
        capacity=table.shape[1] * entry_pages.shape[1],
        picks=picks, pooled=block if pool == "max" else 1, itemsize=q.element_size(),
        fp8=entry_pages.dtype == FP8,
        mx=entry_scale_pages is not None and entry_scale_pages.dtype == torch.uint8,
    )  # fmt: skip


def buffer_shapes(
    launch: IndexLaunch, *, sequences: int, capacity: int, pooled: int, heads: int, head_dim: int
) -> Shapes:
    """Shape and dtype of every scratch tensor."""
    scores = width_of(triton.cdiv(capacity, pooled))
    pairs, segments = launch.pairs, launch.segments
    prepared = pairs * heads if launch.mode != PLAIN else 0
    folded = sequences if launch.fold else 0
    return {
        "scores": ((pairs, scores), torch.float32),
        "numbers": ((pairs, segments, launch.segment_candidates), torch.int32),
        "counts": ((pairs, segments), torch.int32),
        "codes": ((prepared, head_dim), FP8),
        "factors": ((prepared,), torch.float32),
        "folded": ((folded, up(capacity, FOLDED), head_dim), FP8),
        "folded_scale": ((folded, up(capacity, FOLDED), 1), torch.float32),
        "folded_table": ((folded, 1), torch.int64),
    }


def workspace_bytes(
    q: torch.Tensor, entry_pages: torch.Tensor, table: torch.Tensor,
    entry_scale_pages: torch.Tensor | None = None, *, num_heads: int, head_dim: int, top_k: int,
    pool: str = "none", block: int = 1, unit: str = "token", tail: bool = False,
    num_lists: int = 1,
) -> int:  # fmt: skip
    """Bytes of `workspace` that `indexer_paged` needs for these tensors."""
    launch = launch_of(
        q, entry_pages, table, entry_scale_pages, num_heads=num_heads, top_k=top_k,
        pool=pool, block=block, unit=unit, tail=tail, num_lists=num_lists,
    )  # fmt: skip
    return total_bytes(
        buffer_shapes(
            launch,
            sequences=len(table),
            capacity=table.shape[1] * entry_pages.shape[1],
            pooled=block if pool == "max" else 1,
            heads=num_heads // num_lists,
            head_dim=head_dim,
        )
    )


def run(
    q: torch.Tensor, entry_pages: torch.Tensor, table: torch.Tensor, positions: torch.Tensor,
    seq: torch.Tensor, selected: torch.Tensor, head_weights: torch.Tensor | None,
    entry_scale_pages: torch.Tensor | None, *, num_heads: int, head_dim: int, top_k: int,
    scale: float, relu: bool, pool: str, block: int, unit: str, tail: bool, local_blocks: int,
    num_lists: int, workspace: torch.Tensor | None, launch: IndexLaunch | None,
) -> None:  # fmt: skip
    """`indexer_paged`, by a given launch."""
    check_choice("pool", pool, POOLS)
    _check(q, entry_pages, table, positions, seq, selected, head_weights, entry_scale_pages,
           num_heads, head_dim, top_k, num_lists)  # fmt: skip
    picks, each = picks_of(top_k=top_k, pool=pool, block=block, unit=unit, tail=tail)
    if picks < 1:
        raise ValueError(f"top_k must hold a pool of {block} besides the tail, got {top_k}")
    if tail and each == 1 and block > 1:
        raise ValueError(f"tail goes with pooled keys named by token, got pool={pool!r} {unit=}")
    pooled = block if pool == "max" else 1
    check_power_of_two("block of pooled scores", pooled, 1, 128)
    if not len(q):
        return
    launch = launch or launch_of(
        q, entry_pages, table, entry_scale_pages, num_heads=num_heads, top_k=top_k,
        pool=pool, block=block, unit=unit, tail=tail, num_lists=num_lists,
    )  # fmt: skip
    heads, size = num_heads // num_lists, entry_pages.shape[1]
    capacity = table.shape[1] * size
    shapes = buffer_shapes(
        launch, sequences=len(table), capacity=capacity, pooled=pooled, heads=heads,
        head_dim=head_dim,
    )  # fmt: skip
    part = cut(shapes, workspace, q.device)
    # pointers of absent tensors are never read
    weights = q if head_weights is None else head_weights
    scales = entry_pages if entry_scale_pages is None else entry_scale_pages
    if scales.dtype == torch.uint8:
        scales = scales.view(torch.int32)
    if launch.fold:
        entry_pages, scales, table = _folded(part, entry_pages, scales, table, capacity)
        size = entry_pages.shape[1]
    sizes = {"LISTS": num_lists, "EVERY": block if pool in STORED else 1, "POOL": pooled}
    columns = {
        "LISTS": num_lists, "H": heads, "D": head_dim, "HAS": head_weights is not None,
    }  # fmt: skip
    scores, end = part["scores"], len(q) * num_lists
    for first in range(0, end, launch.pairs):
        count = min(launch.pairs, end - first)
        if launch.mode != PLAIN:
            prepare_kernel[(triton.cdiv(count * heads, PREPARED),)](
                q, weights, part["codes"], part["factors"], first, first + count, scale,
                q.stride(0), weights.stride(0), BC=PREPARED, ROUND=not q.is_cuda,
                num_warps=4, **columns,
            )  # fmt: skip
        grid = (triton.cdiv(count, launch.block_pairs), max(triton.cdiv(capacity, launch.chunk), 1))
        score_kernel[grid](
            q, weights, part["codes"], part["factors"], entry_pages, scales, table, positions,
            seq, scores, first, first + count, scale, q.stride(0), weights.stride(0),
            *entry_pages.stride()[:2], *scales.stride()[:2], table.stride(0), scores.stride(0),
            S=size, BV=launch.block_pairs, BN=launch.block_entries, CHUNK=launch.chunk,
            EVERY=sizes["EVERY"], POOL=pooled, LOCAL=local_blocks, RELU=relu, MODE=launch.mode,
            STAGES=launch.score_stages, num_warps=launch.score_warps, **columns,
        )  # fmt: skip
        candidates = {
            "K": picks, "C": launch.segment_candidates, "W": launch.row_candidates,
            "SEGMENTS": launch.segments, "B": launch.block_scores, **sizes,
        }  # fmt: skip
        if launch.segments:
            collect_kernel[(launch.segments, count)](
                scores, positions, part["numbers"], part["counts"], first, scores.stride(0),
                launch.margin, SAMPLE=launch.sample, STAGES=3, num_warps=launch.collect_warps,
                **candidates,
            )  # fmt: skip
        choose_kernel[(count,)](
            scores, positions, part["numbers"], part["counts"], selected, first,
            scores.stride(0), selected.stride(0), WIDTH=top_k, PER=each, TAIL=tail and each > 1,
            PK=triton.next_power_of_2(top_k), num_warps=launch.choose_warps, **candidates,
        )  # fmt: skip


def _folded(
    part: dict[str, torch.Tensor], entry_pages: torch.Tensor, scales: torch.Tensor,
    table: torch.Tensor, capacity: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """(pages, scales, table) of MXFP8 entries under one scale each, a page for each sequence."""
    codes, factors, own = part["folded"], part["folded_scale"], part["folded_table"]
    torch.arange(len(table), out=own.view(-1))
    fold_kernel[(len(table), codes.shape[1] // FOLDED)](
        entry_pages, scales, table, codes, factors, capacity, codes.shape[1],
        *entry_pages.stride()[:2], *scales.stride()[:2], table.stride(0), D=MX_DIM,
        S=entry_pages.shape[1], BN=FOLDED, ROUND=not codes.is_cuda, num_warps=4,
    )  # fmt: skip
    return codes, factors, own


def _check(q, entry_pages, table, positions, seq, selected, head_weights, entry_scale_pages,
           num_heads, head_dim, top_k, num_lists) -> None:  # fmt: skip
    """ValueError for what the kernels cannot read."""
    rows, (pages, size) = len(q), entry_pages.shape[:2]
    check_power_of_two("head_dim", head_dim, 16, 256)
    if num_heads % num_lists:
        raise ValueError(f"num_heads must be a multiple of num_lists {num_lists}, got {num_heads}")
    check_power_of_two("num_heads / num_lists", num_heads // num_lists, 1, 128)
    check_shape("q", q, "T, n*d", (rows, num_heads * head_dim))
    check_shape("entry_pages", entry_pages, "P, S, d", (pages, size, head_dim))
    check_shape("table", table, "N, M", (table.shape[0], table.shape[1]))
    check_shape("positions", positions, "T", (rows,))
    check_shape("seq", seq, "T", (rows,))
    check_shape("selected", selected, "T, lists*top_k", (rows, num_lists * top_k))
    if head_weights is not None:
        check_shape("head_weights", head_weights, "T, n", (rows, num_heads))
    if entry_scale_pages is None:
        if entry_pages.dtype != q.dtype:
            raise ValueError(f"entry_pages must be {q.dtype} as q is, got {entry_pages.dtype}")
        return
    if entry_pages.dtype != FP8 or head_dim != MX_DIM:
        raise ValueError(
            f"entry_pages with scales must be {FP8} with head_dim {MX_DIM}, got "
            f"{entry_pages.dtype} with {head_dim}"
        )
    if entry_scale_pages.dtype == torch.float32:
        check_shape("entry_scale_pages", entry_scale_pages, "P, S, 1", (pages, size, 1))
        return
    groups = head_dim // MX_GROUP
    check_shape("entry_scale_pages", entry_scale_pages, "P, S, d/32", (pages, size, groups))
    strides = tuple(entry_scale_pages.stride()[:2])
    if entry_scale_pages.dtype != torch.uint8 or any(stride % groups for stride in strides):
        raise ValueError(
            f"entry_scale_pages must be fp32 or uint8 with strides a multiple of 4, got "
            f"{entry_scale_pages.dtype} with {strides}"
        )
