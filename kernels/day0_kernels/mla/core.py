"""Attention in the latent's space: checks, launch, merge of the splits."""

import torch
import triton

from day0_kernels.common.arguments import capability, check_power_of_two, check_shape
from day0_kernels.common.splits import merge
from day0_kernels.common.workspace import Shapes, cut, total_bytes
from day0_kernels.mla.attend import TILE, attend_kernel
from day0_kernels.mla.launch import AttendLaunch, attend_launch

LOG2_E = 1.4426950408889634
VECTOR_BYTES = 16
MOST_CHANNELS = 576  # of a query and two steps of entries in shared memory


def launch_of(
    dtype: torch.dtype, latent_pages: torch.Tensor, table: torch.Tensor,
    selected: torch.Tensor | None, *, num_rows: int, num_heads: int, window: int,
) -> AttendLaunch:  # fmt: skip
    """The launch for queries of `dtype`; the table's width bounds what a row can see."""
    all_entries = table.shape[1] * latent_pages.shape[1]
    most = min(all_entries, window or all_entries) if selected is None else selected.shape[1]
    return attend_launch(
        capability(latent_pages), num_rows=num_rows, num_heads=num_heads, most_entries=most,
        itemsize=dtype.itemsize,
    )  # fmt: skip


def split_shapes(launch: AttendLaunch, *, num_rows: int, num_heads: int, latent_dim: int) -> Shapes:
    """Scratch of the splits' results, none with one split."""
    count = launch.splits if launch.splits > 1 else 0
    return {
        "part": ((count, num_rows, num_heads, latent_dim), torch.float32),
        "lse": ((count, num_heads, num_rows), torch.float32),
    }


def latent_attention(
    q_latent: torch.Tensor,
    latent_pages: torch.Tensor,
    table: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
    mixed: torch.Tensor,
    q_rope: torch.Tensor | None = None,
    k_rope_pages: torch.Tensor | None = None,
    latent_scale_pages: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
    selected: torch.Tensor | None = None,
    *,
    scale: float,
    window: int = 0,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write mixed [T, n, r]; see paged.py. The host is asked nothing. `workspace` (uint8,
    `workspace_bytes`) holds the scratch. Raises ValueError for a wrong shape or stride."""
    rows, heads = q_latent.shape[:2]
    launch = launch_of(
        q_latent.dtype, latent_pages, table, selected, num_rows=rows, num_heads=heads,
        window=window,
    )  # fmt: skip
    run(
        q_latent, latent_pages, table, positions, seq, mixed, q_rope, k_rope_pages,
        latent_scale_pages, sink, selected, scale=scale, window=window, workspace=workspace,
        launch=launch,
    )  # fmt: skip


def workspace_bytes(
    q_latent: torch.Tensor, latent_pages: torch.Tensor, table: torch.Tensor,
    selected: torch.Tensor | None, *, window: int = 0,
) -> int:  # fmt: skip
    """Bytes of `workspace` that `latent_attention` needs for these tensors."""
    rows, heads, channels = q_latent.shape
    launch = launch_of(
        q_latent.dtype, latent_pages, table, selected, num_rows=rows, num_heads=heads,
        window=window,
    )  # fmt: skip
    shapes = split_shapes(launch, num_rows=rows, num_heads=heads, latent_dim=channels)
    return total_bytes(shapes)


def run(
    q_latent: torch.Tensor, latent_pages: torch.Tensor, table: torch.Tensor,
    positions: torch.Tensor, seq: torch.Tensor, mixed: torch.Tensor, q_rope: torch.Tensor | None,
    k_rope_pages: torch.Tensor | None, latent_scale_pages: torch.Tensor | None,
    sink: torch.Tensor | None, selected: torch.Tensor | None, *, scale: float, window: int,
    workspace: torch.Tensor | None, launch: AttendLaunch,
) -> None:  # fmt: skip
    """`latent_attention` by a given launch."""
    rows, heads, channels = q_latent.shape
    rope = _check(q_latent, latent_pages, table, positions, seq, mixed, q_rope, k_rope_pages,
                  latent_scale_pages, sink, selected)  # fmt: skip
    if rows == 0:
        return
    shapes = split_shapes(launch, num_rows=rows, num_heads=heads, latent_dim=channels)
    part = cut(shapes, workspace, q_latent.device)
    split = launch.splits > 1
    out = part["part"] if split else mixed[None]
    # pointers of absent tensors are never read
    q_rope = q_latent if q_rope is None else q_rope
    k_rope = latent_pages if k_rope_pages is None else k_rope_pages
    scales = latent_pages if latent_scale_pages is None else latent_scale_pages
    grain, rope_grain = (VECTOR_BYTES // x.element_size() for x in (latent_pages, k_rope))
    attend_kernel[(rows * triton.cdiv(heads, launch.block_heads), launch.splits)](
        q_latent, q_rope, latent_pages, scales, k_rope, table, positions, seq,
        positions if selected is None else selected, q_latent if sink is None else sink, out,
        part["lse"], *q_latent.stride()[:2], *q_rope.stride()[:2], latent_pages.stride(0),
        latent_pages.stride(1) // grain, *scales.stride()[:2], k_rope.stride(0),
        k_rope.stride(1) // rope_grain, table.stride(0),
        0 if selected is None else selected.stride(0), *out.stride()[:3], rows, scale * LOG2_E,
        N=heads, BH=launch.block_heads, R=channels, DR=rope, S=latent_pages.shape[1],
        BS=launch.block_entries, K=0 if selected is None else selected.shape[1], WINDOW=window,
        SPLITS=launch.splits, SINK=sink is not None, FP8=latent_scale_pages is not None,
        GRAIN=grain, ROPE_GRAIN=rope_grain, num_warps=launch.num_warps,
        num_stages=launch.num_stages,
    )  # fmt: skip
    if split:
        merge(part["part"], part["lse"], mixed)


def _check(q_latent, latent_pages, table, positions, seq, mixed, q_rope, k_rope_pages,
           latent_scale_pages, sink, selected) -> int:  # fmt: skip
    """The number of rope channels; ValueError for what the kernel cannot read."""
    rows, heads, channels = q_latent.shape
    pages, size = latent_pages.shape[:2]
    check_power_of_two("r", channels, 16, 512)
    check_power_of_two("S", size, 1, 1 << 16)
    check_shape("q_latent", q_latent, "T, n, r", (rows, heads, channels))
    check_shape("mixed", mixed, "T, n, r", (rows, heads, channels))
    check_shape("latent_pages", latent_pages, "P, S, r", (pages, size, channels))
    check_shape("table", table, "N, M", (table.shape[0], table.shape[1]))
    check_shape("positions", positions, "T", (rows,))
    check_shape("seq", seq, "T", (rows,))
    if selected is not None:
        check_shape("selected", selected, "T, k", (rows, selected.shape[1]))
    if sink is not None:
        check_shape("sink", sink, "n", (heads,))
    fp8 = latent_pages.dtype == torch.float8_e4m3fn
    if fp8 != (latent_scale_pages is not None):
        raise ValueError(
            f"latent_scale_pages must be given with FP8 pages alone, got {latent_pages.dtype}"
        )
    if latent_scale_pages is not None:
        if q_latent.dtype == torch.bfloat16:
            raise ValueError("q_latent must be fp16 (or fp32) with FP8 pages, got bf16")
        tiles = channels // TILE.value
        check_shape("latent_scale_pages", latent_scale_pages, "P, S, r/128", (pages, size, tiles))
    _check_vectors("latent_pages", latent_pages)
    if (q_rope is None) != (k_rope_pages is None):
        raise ValueError("q_rope and k_rope_pages must be given together")
    if q_rope is None or k_rope_pages is None:
        return 0
    rope = q_rope.shape[2]
    check_power_of_two("dr", rope, 16, 128)
    check_shape("q_rope", q_rope, "T, n, dr", (rows, heads, rope))
    check_shape("k_rope_pages", k_rope_pages, "P, S, dr", (pages, size, rope))
    if channels + rope > MOST_CHANNELS:
        raise ValueError(f"r + dr must be at most {MOST_CHANNELS}, got {channels + rope}")
    _check_vectors("k_rope_pages", k_rope_pages)
    return rope


def _check_vectors(name: str, pages: torch.Tensor) -> None:
    grain = VECTOR_BYTES // pages.element_size()
    if pages.stride(1) % grain:
        raise ValueError(
            f"{name} must have entries a multiple of 16 bytes apart, got {pages.stride(1)} "
            f"elements of {pages.dtype}"
        )
