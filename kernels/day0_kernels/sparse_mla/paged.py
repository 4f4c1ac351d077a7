"""The definitions of latent attention over selected entries of paged caches."""

import torch

from day0_kernels.mla import paged


def selected_attention(
    q_latent: torch.Tensor,
    selected: torch.Tensor,
    latent_pages: torch.Tensor,
    table: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
    mixed: torch.Tensor,
    q_rope: torch.Tensor | None = None,
    k_rope_pages: torch.Tensor | None = None,
    latent_scale_pages: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
    *,
    scale: float,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write mixed [T, n, r]: `latent_attention` of mla/paged.py over the entries that selected
    [T, k] int32 names: places in the row's sequence, -1 for none, none twice, in any order."""
    paged.latent_attention(
        q_latent, latent_pages, table, positions, seq, mixed, q_rope, k_rope_pages,
        latent_scale_pages, sink, selected, scale=scale,
    )  # fmt: skip


def sparse_mla_paged(
    q: torch.Tensor,
    selected: torch.Tensor,
    w_uk: torch.Tensor,
    w_uv: torch.Tensor,
    latent_pages: torch.Tensor,
    table: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
    y: torch.Tensor,
    k_rope_pages: torch.Tensor | None = None,
    latent_scale_pages: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
    *,
    num_heads: int,
    nope_dim: int,
    rope_dim: int,
    value_dim: int,
    latent_dim: int,
    scale: float,
    num_selected: int,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write y [T, n*dv]: `sparse_mla` of reference.py over pages, selected [T, num_selected]."""
    paged.through(
        q, w_uk, w_uv, y, latent_pages, table, positions, seq, k_rope_pages, latent_scale_pages,
        sink, selected, num_heads=num_heads, nope_dim=nope_dim, scale=scale,
    )  # fmt: skip
