"""Latent attention over selected entries: the kernel of mla, fed by the selection."""

import torch

from day0_kernels.common.arguments import check_shape
from day0_kernels.mla import core, decode


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
    """Write mixed [T, n, r]; see paged.py. Prefill and decode alike; the host is asked nothing.
    `workspace` as for mla's `latent_attention`. Raises ValueError for a wrong shape or stride."""
    core.latent_attention(
        q_latent, latent_pages, table, positions, seq, mixed, q_rope, k_rope_pages,
        latent_scale_pages, sink, selected, scale=scale, workspace=workspace,
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
    """Write y [T, n*dv]; see paged.py. `workspace` (uint8) holds the scratch, without it scratch
    is allocated. Raises ValueError for a wrong shape or stride."""
    check_shape("selected", selected, "T, k", (q.shape[0], num_selected))
    decode.through(
        q, w_uk, w_uv, latent_pages, table, positions, seq, y, k_rope_pages, latent_scale_pages,
        sink, selected, num_heads=num_heads, nope_dim=nope_dim, rope_dim=rope_dim,
        value_dim=value_dim, latent_dim=latent_dim, scale=scale, window=0, workspace=workspace,
    )  # fmt: skip
