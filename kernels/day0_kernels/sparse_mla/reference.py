"""Definition of latent attention over selected tokens (DeepSeek-V3.2), expanded and absorbed."""

import torch

from day0_kernels.mla.reference import absorbed, attend, expanded


def sparse_mla(
    q: torch.Tensor,
    selected: torch.Tensor,
    w_uk: torch.Tensor,
    w_uv: torch.Tensor,
    latent: torch.Tensor,
    y: torch.Tensor,
    cu_seqlens: torch.Tensor,
    positions: torch.Tensor,
    cu_history: torch.Tensor,
    history_first: torch.Tensor,
    k_rope: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
    *,
    num_heads: int,
    nope_dim: int,
    rope_dim: int,
    value_dim: int,
    latent_dim: int,
    scale: float,
    num_selected: int,
) -> None:
    """Write `y` [T, n*dv]: as `mla`, over the tokens <= p named in selected [T, num_selected].

    Numbers are positions in the row's sequence, -1 for none, in any order; repeats count once.
    """
    attend(
        expanded, q, w_uk, w_uv, latent, y, cu_seqlens, positions, cu_history, history_first,
        k_rope, sink, num_heads=num_heads, nope_dim=nope_dim, scale=scale, selected=selected,
    )  # fmt: skip


def sparse_mla_absorbed(
    q: torch.Tensor,
    selected: torch.Tensor,
    w_uk: torch.Tensor,
    w_uv: torch.Tensor,
    latent: torch.Tensor,
    y: torch.Tensor,
    cu_seqlens: torch.Tensor,
    positions: torch.Tensor,
    cu_history: torch.Tensor,
    history_first: torch.Tensor,
    k_rope: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
    *,
    num_heads: int,
    nope_dim: int,
    rope_dim: int,
    value_dim: int,
    latent_dim: int,
    scale: float,
    num_selected: int,
) -> None:
    """As `sparse_mla`, in the latent's space."""
    attend(
        absorbed, q, w_uk, w_uv, latent, y, cu_seqlens, positions, cu_history, history_first,
        k_rope, sink, num_heads=num_heads, nope_dim=nope_dim, scale=scale, selected=selected,
    )  # fmt: skip
