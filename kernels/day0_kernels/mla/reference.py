"""Definition of multi-head latent attention (arXiv 2405.04434), in two forms that agree.

Expanded: every latent becomes a key and a value of every head. Absorbed: the query is taken to
the latent's space and the mixed latent back to the values'; a history entry is read as it lies.
"""

from collections.abc import Callable

import torch

from day0_kernels.common.plain import causal, histories, named, softmax_over, wide

Form = Callable[..., torch.Tensor]


def mla(
    q: torch.Tensor,
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
    window: int = 0,
) -> None:
    """Write `y` [T, n*dv], expanded form: keys [w_uk c | k_rope], values w_uv c.

    q [T, n*(dn+dr)], per head [nope | rope]; w_uk [n*dn, r], w_uv [n*dv, r]; latent [S, r] = c;
    k_rope [S, dr], one for all heads (None where rope_dim is 0); sink [n]. Visibility as `gqa`.
    """
    attend(
        expanded, q, w_uk, w_uv, latent, y, cu_seqlens, positions, cu_history, history_first,
        k_rope, sink, num_heads=num_heads, nope_dim=nope_dim, scale=scale, window=window,
    )  # fmt: skip


def mla_absorbed(
    q: torch.Tensor,
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
    window: int = 0,
) -> None:
    """As `mla`, absorbed form: queries [w_uk^T q_nope | q_rope] against [c | k_rope], then w_uv."""
    attend(
        absorbed, q, w_uk, w_uv, latent, y, cu_seqlens, positions, cu_history, history_first,
        k_rope, sink, num_heads=num_heads, nope_dim=nope_dim, scale=scale, window=window,
    )  # fmt: skip


def attend(
    form: Form,
    q: torch.Tensor,
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
    *,
    num_heads: int,
    nope_dim: int,
    scale: float,
    window: int = 0,
    selected: torch.Tensor | None = None,
) -> None:
    """Write `y` by `form`, sequence by sequence, over all tokens seen or those `selected` only."""
    for rows, entries, at in histories(cu_seqlens, cu_history, history_first):
        own = latent[entries]
        seen = causal(positions[rows], at, len(own), window)  # [t, s]
        if selected is not None:
            seen = seen & named(selected[rows], at, len(own))
        out = form(
            q[rows], w_uk, w_uv, own, None if k_rope is None else k_rope[entries], seen, sink,
            num_heads=num_heads, nope_dim=nope_dim, scale=scale,
        )  # fmt: skip
        y[rows] = out.to(y.dtype)


def expanded(
    q: torch.Tensor,
    w_uk: torch.Tensor,
    w_uv: torch.Tensor,
    latent: torch.Tensor,
    k_rope: torch.Tensor | None,
    seen: torch.Tensor,
    sink: torch.Tensor | None,
    *,
    num_heads: int,
    nope_dim: int,
    scale: float,
) -> torch.Tensor:
    """[t, n*dv] of one sequence; `seen` [t, s]."""
    dtype, tokens, count = wide(q), q.shape[0], latent.shape[0]
    c = latent.to(dtype)
    keys = (c @ w_uk.to(dtype).t()).view(count, num_heads, nope_dim)  # [s, n, dn]
    values = (c @ w_uv.to(dtype).t()).view(count, num_heads, -1)  # [s, n, dv]
    if k_rope is not None:
        shared = k_rope.to(dtype).view(count, 1, -1).expand(-1, num_heads, -1)
        keys = torch.cat((keys, shared), dim=-1)  # [s, n, dn+dr]
    queries = q.to(dtype).view(tokens, num_heads, -1)  # [t, n, dn+dr]
    scores = torch.einsum("tnd,snd->nts", queries, keys) * scale
    weights = softmax_over(scores, seen, sink)
    return torch.einsum("nts,snv->tnv", weights, values).reshape(tokens, -1)


def absorbed(
    q: torch.Tensor,
    w_uk: torch.Tensor,
    w_uv: torch.Tensor,
    latent: torch.Tensor,
    k_rope: torch.Tensor | None,
    seen: torch.Tensor,
    sink: torch.Tensor | None,
    *,
    num_heads: int,
    nope_dim: int,
    scale: float,
) -> torch.Tensor:
    """[t, n*dv] of one sequence; `seen` [t, s]."""
    dtype = wide(q)
    queries = q.to(dtype).view(len(q), num_heads, -1)  # [t, n, dn+dr]
    rope = None if k_rope is None else queries[..., nope_dim:].transpose(0, 1)
    mixed = weigh(
        taken_over(queries[..., :nope_dim], w_uk), latent.to(dtype), rope,
        None if k_rope is None else k_rope.to(dtype), seen, sink, scale,
    )  # fmt: skip
    return taken_back(mixed, w_uv)


def taken_over(nope: torch.Tensor, w_uk: torch.Tensor) -> torch.Tensor:
    """[n, t, r]: queries [t, n, dn] in the latent's space."""
    up = w_uk.to(nope.dtype).view(nope.shape[1], nope.shape[2], -1)  # [n, dn, r]
    return torch.einsum("tnd,ndr->ntr", nope, up)


def taken_back(mixed: torch.Tensor, w_uv: torch.Tensor) -> torch.Tensor:
    """[t, n*dv]: mixed latents [n, t, r] as values."""
    up = w_uv.to(mixed.dtype).view(len(mixed), -1, mixed.shape[2])  # [n, dv, r]
    return torch.einsum("ntr,nvr->tnv", mixed, up).flatten(1)


def weigh(
    taken: torch.Tensor,
    c: torch.Tensor,
    rope: torch.Tensor | None,
    k_rope: torch.Tensor | None,
    seen: torch.Tensor,
    sink: torch.Tensor | None,
    scale: float,
) -> torch.Tensor:
    """[n, t, r] of one sequence: the latents c [s, r] by the softmax of what queries `taken`
    [n, t, r] and `rope` [n, t, dr] score; `seen` [t, s]."""
    scores = taken @ c.t()  # [n, t, s]
    if rope is not None and k_rope is not None:
        scores = scores + rope @ k_rope.t()
    return softmax_over(scores * scale, seen, sink) @ c
