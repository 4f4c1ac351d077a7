"""Definition of latent attention over selected tokens (DeepSeek-V3.2), expanded and absorbed."""

import torch

from day0_kernels.common.plain import borders, causal, named
from day0_kernels.mla.reference import Form, absorbed, expanded


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
    _sparse(
        expanded, q, selected, w_uk, w_uv, latent, y, cu_seqlens, positions, cu_history,
        history_first, k_rope, sink, num_heads, nope_dim, scale,
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
    _sparse(
        absorbed, q, selected, w_uk, w_uv, latent, y, cu_seqlens, positions, cu_history,
        history_first, k_rope, sink, num_heads, nope_dim, scale,
    )  # fmt: skip


def _sparse(
    form: Form,
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
    k_rope: torch.Tensor | None,
    sink: torch.Tensor | None,
    num_heads: int,
    nope_dim: int,
    scale: float,
) -> None:
    rows, entries = borders(cu_seqlens), borders(cu_history)
    for (first, last), (start, stop), at in zip(rows, entries, history_first.tolist(), strict=True):
        if first == last:
            continue
        count = stop - start
        seen = causal(positions[first:last], at, count) & named(selected[first:last], at, count)
        out = form(
            q[first:last], w_uk, w_uv, latent[start:stop],
            None if k_rope is None else k_rope[start:stop],
            seen, sink, num_heads=num_heads, nope_dim=nope_dim, scale=scale,
        )  # fmt: skip
        y[first:last] = out.to(y.dtype)
