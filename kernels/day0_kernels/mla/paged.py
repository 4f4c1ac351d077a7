"""The definitions of dense and selected latent attention over paged caches."""

import torch

from day0_kernels.common.paged import history_of, lengths_of
from day0_kernels.common.plain import causal, named, wide
from day0_kernels.mla.reference import taken_back, taken_over, weigh


def entries_of(
    pages: torch.Tensor,
    scale_pages: torch.Tensor | None,
    table: torch.Tensor,
    lengths: list[int],
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(entries of all sequences in `dtype`, borders); an FP8 entry times the scales of its tiles,
    of which it has as many as `scale_pages` [P, S, tiles] says."""
    found, borders = history_of(pages, table, lengths)
    found = found.to(dtype)
    if scale_pages is not None:
        scales = history_of(scale_pages, table, lengths)[0].to(dtype)
        found = (found.unflatten(-1, (scales.shape[-1], -1)) * scales[..., None]).flatten(-2)
    return found, borders


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
    """Write mixed [T, n, r]: per head, the latents weighed by softmax of scale * score, where the
    score of an entry is q_latent [T, n, r] . latent + q_rope [T, n, dr] . k_rope.

    Row t sees the entries of sequence seq[t] up to positions[t], of these the last `window`, or
    those that `selected` [T, k] names (-1: none; none twice). latent_pages [P, S, r], k_rope_pages
    [P, S, dr], table [N, M]; latent_scale_pages fp32 [P, S, r/128] belongs to a latent in FP8, for
    which a kernel wants 16 bit q_latent in fp16.
    """
    dtype, lengths = wide(q_latent), lengths_of(positions, seq, len(table))
    latent, borders = entries_of(latent_pages, latent_scale_pages, table, lengths, dtype)
    k_rope = None
    if k_rope_pages is not None:
        k_rope = entries_of(k_rope_pages, None, table, lengths, dtype)[0]
    for row in range(len(q_latent)):  # rows of a sequence need not lie together
        own = slice(int(borders[seq[row]]), int(borders[seq[row] + 1]))
        count = own.stop - own.start
        seen = causal(positions[row : row + 1], 0, count, window)
        if selected is not None:
            seen = seen & named(selected[row : row + 1], 0, count)
        found = weigh(
            q_latent[row : row + 1].transpose(0, 1).to(dtype), latent[own],
            None if q_rope is None else q_rope[row : row + 1].transpose(0, 1).to(dtype),
            None if k_rope is None else k_rope[own], seen, sink, scale,
        )  # fmt: skip
        mixed[row] = found[:, 0].to(mixed.dtype)


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
    latent_scale_pages: torch.Tensor | None = None,
    sink: torch.Tensor | None = None,
    *,
    num_heads: int,
    nope_dim: int,
    rope_dim: int,
    value_dim: int,
    latent_dim: int,
    scale: float,
    window: int = 0,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write y [T, n*dv]: `mla` of reference.py over pages; what a row sees, and the pages, as in
    `latent_attention`."""
    through(
        q, w_uk, w_uv, y, latent_pages, table, positions, seq, k_rope_pages, latent_scale_pages,
        sink, None, num_heads=num_heads, nope_dim=nope_dim, scale=scale, window=window,
    )  # fmt: skip


def through(
    q: torch.Tensor,
    w_uk: torch.Tensor,
    w_uv: torch.Tensor,
    y: torch.Tensor,
    latent_pages: torch.Tensor,
    table: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
    k_rope_pages: torch.Tensor | None,
    latent_scale_pages: torch.Tensor | None,
    sink: torch.Tensor | None,
    selected: torch.Tensor | None,
    *,
    num_heads: int,
    nope_dim: int,
    scale: float,
    window: int = 0,
) -> None:
    """Write `y`: queries over to the latent's space, `latent_attention`, and back."""
    heads = q.to(wide(q)).view(len(q), num_heads, -1)  # [t, n, dn+dr]
    over = taken_over(heads[..., :nope_dim], w_uk)  # [n, t, r]
    mixed = torch.empty_like(over).transpose(0, 1)
    latent_attention(
        over.transpose(0, 1), latent_pages, table, positions, seq, mixed,
        None if k_rope_pages is None else heads[..., nope_dim:], k_rope_pages, latent_scale_pages,
        sink, selected, scale=scale, window=window,
    )  # fmt: skip
    y.copy_(taken_back(mixed.transpose(0, 1), w_uv))
