"""The definition of grouped-query attention over selected blocks of paged caches."""

import torch

from day0_kernels.gqa.paged import through


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
    """Write y [T, n*dv]: `sparse_gqa` of reference.py over pages (gqa/paged.py); selected
    [T, lists*num_selected] names no block twice in a list, -1 for none, in any order."""
    through(
        q, key_pages, value_pages, table, cu_seqlens, positions, seq, y, sink, key_scale_pages,
        value_scale_pages, selected, num_heads=num_heads, num_kv_heads=num_kv_heads, scale=scale,
        block=block, num_lists=num_lists,
    )  # fmt: skip
