"""Grouped-query attention over selected blocks: the kernel of gqa, fed by the selection."""

import torch

from day0_kernels.common.arguments import check_shape
from day0_kernels.gqa.attention import launch_of, run


def sparse_gqa_paged(
    q: torch.Tensor,
    selected: torch.Tensor,
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
    num_selected: int,
    block: int = 1,
    num_lists: int = 1,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write y [T, n*dv]; see paged.py. Prefill and decode alike; the host is asked nothing.
    `workspace` as for `gqa_paged` (`most_selected` is num_selected * block). Raises ValueError
    for a wrong shape, stride or size."""
    check_shape("selected", selected, "T, lists*k", (len(q), num_lists * num_selected))
    if num_kv_heads % num_lists:
        raise ValueError(f"nkv = {num_kv_heads} must be a multiple of the lists, got {num_lists}")
    launch = launch_of(
        q, key_pages, value_pages, table, cu_seqlens, num_selected * block, num_heads=num_heads,
        num_kv_heads=num_kv_heads,
    )  # fmt: skip
    run(
        q, key_pages, value_pages, table, cu_seqlens, positions, seq, y, sink, key_scale_pages,
        value_scale_pages, selected, num_heads=num_heads, num_kv_heads=num_kv_heads,
        head_dim=head_dim, value_dim=value_dim, scale=scale, block=block, num_lists=num_lists,
        workspace=workspace, launch=launch,
    )  # fmt: skip
