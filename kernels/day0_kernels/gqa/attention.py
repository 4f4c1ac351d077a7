"""Grouped-query attention over pages: checks, launch, merge of the splits."""

import torch
import triton

from day0_kernels.common.arguments import capability, check_shape
from day0_kernels.common.splits import merge
from day0_kernels.common.workspace import Shapes, cut, total_bytes
from day0_kernels.gqa.attend import attend_kernel
from day0_kernels.gqa.launch import AttendLaunch, attend_launch

LOG2_E = 1.4426950408889634
MOST_CHANNELS = 256  # of a head: a tile of 128 rows fills the registers
TILE = 128  # channels of a head that share a scale of an FP8 cache


def gqa_paged(
    q: torch.Tensor,
    key_pages: torch.Tensor,
    value_pages: torch.Tensor,
    table: torch.Tensor,
    cu_seqlens: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
    y: torch.Tensor,
    sink: torch.Tensor | None = None,
    key_scale_pages: torch.Tensor | None = None,
    value_scale_pages: torch.Tensor | None = None,
    *,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    value_dim: int,
    scale: float,
    window: int = 0,
    softcap: float | None = None,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write y [T, n*dv]; see paged.py. Prefill and decode alike; the host is asked nothing.
    `workspace` (uint8, `workspace_bytes`) holds the scratch, without it scratch is allocated.
    Raises ValueError for a wrong shape, stride or size."""
    launch = launch_of(
        q, key_pages, value_pages, table, cu_seqlens, None, num_heads=num_heads,
        num_kv_heads=num_kv_heads, window=window,
    )  # fmt: skip
    run(
        q, key_pages, value_pages, table, cu_seqlens, positions, seq, y, sink, key_scale_pages,
        value_scale_pages, None, num_heads=num_heads, num_kv_heads=num_kv_heads,
        head_dim=head_dim, value_dim=value_dim, scale=scale, window=window, softcap=softcap,
        workspace=workspace, launch=launch,
    )  # fmt: skip


def launch_of(
    q: torch.Tensor, key_pages: torch.Tensor, value_pages: torch.Tensor, table: torch.Tensor,
    cu_seqlens: torch.Tensor, most_selected: int | None, *, num_heads: int, num_kv_heads: int,
    window: int = 0,
) -> AttendLaunch:  # fmt: skip
    """The launch for these tensors; the table's width bounds what a row can see, or the number of
    entries `most_selected`."""
    entries = table.shape[1] * key_pages.shape[1]
    most = min(entries, window or entries) if most_selected is None else most_selected
    widest = max(key_pages.shape[2], value_pages.shape[2])
    return attend_launch(
        capability(q), num_rows=len(q), num_sequences=len(cu_seqlens) - 1, num_heads=num_heads,
        num_kv_heads=num_kv_heads, channels=widest // num_kv_heads, most_entries=most,
        window=window, itemsize=q.element_size(), fp8=key_pages.dtype == torch.float8_e4m3fn,
        selected=most_selected is not None,
    )  # fmt: skip


def split_shapes(launch: AttendLaunch, *, num_rows: int, num_heads: int, value_dim: int) -> Shapes:
    """Scratch of the splits' results, none with one split."""
    count = launch.splits if launch.splits > 1 else 0
    return {
        "part": ((count, num_rows, num_heads, value_dim), torch.float32),
        "lse": ((count, num_heads, num_rows), torch.float32),
    }


def workspace_bytes(
    q: torch.Tensor, key_pages: torch.Tensor, value_pages: torch.Tensor, table: torch.Tensor,
    cu_seqlens: torch.Tensor, most_selected: int | None = None, *, num_heads: int,
    num_kv_heads: int, window: int = 0,
) -> int:  # fmt: skip
    """Bytes of `workspace` that `gqa_paged` (or its sparse twin) needs for these tensors."""
    launch = launch_of(
        q, key_pages, value_pages, table, cu_seqlens, most_selected, num_heads=num_heads,
        num_kv_heads=num_kv_heads, window=window,
    )  # fmt: skip
    value_dim = value_pages.shape[2] // num_kv_heads
    shapes = split_shapes(launch, num_rows=len(q), num_heads=num_heads, value_dim=value_dim)
    return total_bytes(shapes)


def run(
    q: torch.Tensor, key_pages: torch.Tensor, value_pages: torch.Tensor, table: torch.Tensor,
    cu_seqlens: torch.Tensor, positions: torch.Tensor, seq: torch.Tensor, y: torch.Tensor,
    sink: torch.Tensor | None, key_scale_pages: torch.Tensor | None,
    value_scale_pages: torch.Tensor | None, selected: torch.Tensor | None, *, num_heads: int,
    num_kv_heads: int, head_dim: int, value_dim: int, scale: float, window: int = 0,
    softcap: float | None = None, block: int = 1, num_lists: int = 1,
    workspace: torch.Tensor | None, launch: AttendLaunch,
) -> None:  # fmt: skip
    """Both attentions by a given launch; `selected` [T, lists * k] needs one of one row a tile."""
    rows, size = len(q), key_pages.shape[1]
    _check(q, key_pages, value_pages, table, positions, seq, y, sink, key_scale_pages,
           value_scale_pages, num_heads, num_kv_heads, head_dim, value_dim, scale)  # fmt: skip
    if rows == 0:
        return
    shapes = split_shapes(launch, num_rows=rows, num_heads=num_heads, value_dim=value_dim)
    part = cut(shapes, workspace, q.device)
    split = launch.splits > 1
    out = part["part"].flatten(2) if split else y[None]
    # pointers of absent tensors are never read
    fp8 = key_scale_pages is not None
    key_scales = key_pages if key_scale_pages is None else key_scale_pages
    value_scales = value_pages if value_scale_pages is None else value_scale_pages
    sequences = len(cu_seqlens) - 1
    tiles = rows if launch.block_rows == 1 else rows // launch.block_rows + sequences + 1
    blocks = triton.cdiv(num_heads // num_kv_heads, launch.block_heads)
    attend_kernel[(tiles * num_kv_heads * blocks, launch.splits)](
        q, key_pages, value_pages, key_scales, value_scales, table, cu_seqlens, positions, seq,
        positions if selected is None else selected, q if sink is None else sink, out,
        part["lse"], q.stride(0), *key_pages.stride()[:2], *value_pages.stride()[:2],
        *key_scales.stride()[:2], *value_scales.stride()[:2], table.stride(0),
        0 if selected is None else selected.stride(0), *out.stride()[:2], rows, sequences,
        scale * LOG2_E if softcap is None else scale / softcap,
        0.0 if softcap is None else softcap * LOG2_E,
        N=num_heads, NKV=num_kv_heads, DK=head_dim, DV=value_dim,
        BK=max(triton.next_power_of_2(head_dim), 16),
        BV=max(triton.next_power_of_2(value_dim), 16), BT=launch.block_rows,
        BG=launch.block_heads, S=size, BS=launch.block_entries,
        K=0 if selected is None else selected.shape[1] // num_lists, BLOCK=block,
        LISTS=num_lists, WINDOW=window, CAP=softcap is not None, SPLITS=launch.splits,
        SINK=sink is not None, FP8=fp8, KEY_TILES=triton.cdiv(head_dim, TILE),
        VALUE_TILES=triton.cdiv(value_dim, TILE), num_warps=launch.num_warps,
        num_stages=launch.num_stages,
    )  # fmt: skip
    if split:
        merge(part["part"], part["lse"], y.view(rows, num_heads, value_dim))


def _check(
    q: torch.Tensor, key_pages: torch.Tensor, value_pages: torch.Tensor, table: torch.Tensor,
    positions: torch.Tensor, seq: torch.Tensor, y: torch.Tensor, sink: torch.Tensor | None,
    key_scale_pages: torch.Tensor | None, value_scale_pages: torch.Tensor | None, num_heads: int,
    num_kv_heads: int, head_dim: int, value_dim: int, scale: float,
) -> None:  # fmt: skip
    """ValueError for what the kernel cannot read."""
    rows, (pages, size) = len(q), key_pages.shape[:2]
    if num_heads % num_kv_heads:
        raise ValueError(f"n must be a multiple of nkv = {num_kv_heads}, got {num_heads}")
    if max(head_dim, value_dim) > MOST_CHANNELS:
        raise ValueError(
            f"heads must have at most {MOST_CHANNELS} channels, got {head_dim} and {value_dim}"
        )
    if not scale > 0:
        raise ValueError(f"scale must be above 0, got {scale}")
    check_shape("q", q, "T, n*dk", (rows, num_heads * head_dim))
    check_shape("y", y, "T, n*dv", (rows, num_heads * value_dim))
    check_shape("key_pages", key_pages, "P, S, nkv*dk", (pages, size, num_kv_heads * head_dim))
    check_shape("value_pages", value_pages, "P, S, nkv*dv", (pages, size, num_kv_heads * value_dim))
    check_shape("table", table, "N, M", (table.shape[0], table.shape[1]))
    check_shape("positions", positions, "T", (rows,))
    check_shape("seq", seq, "T", (rows,))
    if sink is not None:
        check_shape("sink", sink, "n", (num_heads,))
    both = (("key", key_pages, key_scale_pages, head_dim),
            ("value", value_pages, value_scale_pages, value_dim))  # fmt: skip
    for name, codes, scales, channels in both:
        if (codes.dtype == torch.float8_e4m3fn) != (scales is not None):
            raise ValueError(
                f"{name}_scale_pages must be given with FP8 pages alone, got {codes.dtype}"
            )
        if scales is None:
            continue
        if channels > TILE and channels % TILE:
            raise ValueError(
                f"FP8 heads must have up to {TILE} channels or a multiple, got {channels}"
            )
        tiles = num_kv_heads * triton.cdiv(channels, TILE)
        check_shape(f"{name}_scale_pages", scales, "P, S, nkv*tiles", (pages, size, tiles))
    if (key_scale_pages is None) != (value_scale_pages is None):
        raise ValueError("key_scale_pages and value_scale_pages must be given together")
