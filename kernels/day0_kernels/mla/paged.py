"""The definitions of dense and selected latent attention over paged caches."""

import torch

from day0_kernels.common.paged import history_of, lengths_of
from day0_kernels.mla.reference import absorbed, attend


def mla_paged(
    q: torch.Tensor,
    w_uk: torch.Tensor,
    w_uv: torch.Tensor,
    latent_pages: torch.Tensor,
    table: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
    y: torch.Tensor,
    k_rope_pages: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
    selected: torch.Tensor | None = None,
    *,
    num_heads: int,
    nope_dim: int,
    rope_dim: int,
    value_dim: int,
    latent_dim: int,
    scale: float,
    window: int = 0,
    num_selected: int = 0,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write y [T, n*dv]: row t sees the entries of sequence seq[t] up to positions[t], of these the
    last `window`, or those that `selected` [T, num_selected] names (-1: none).

    latent_pages [P, S, r], k_rope_pages [P, S, dr], table [N, M]; the rest as in reference.py.
    """
    lengths = lengths_of(positions, seq, len(table))
    latent, borders = history_of(latent_pages, table, lengths)
    k_rope = None if k_rope_pages is None else history_of(k_rope_pages, table, lengths)[0]
    for row in range(len(q)):  # rows of a sequence need not lie together
        own = slice(int(borders[seq[row]]), int(borders[seq[row] + 1]))
        attend(
            absorbed, q[row : row + 1], w_uk, w_uv, latent[own], y[row : row + 1],
            torch.tensor([0, 1]), positions[row : row + 1], torch.tensor([0, own.stop - own.start]),
            torch.tensor([0]), None if k_rope is None else k_rope[own], sink,
            num_heads=num_heads, nope_dim=nope_dim, scale=scale, window=window,
            selected=None if selected is None else selected[row : row + 1],
        )  # fmt: skip
