"""Definition of attention residuals: a softmax over depth by one learned query; at once, or in two
phases: all queries of a block over the blocks before it, then each with the running sum.

Sources: arXiv 2603.15031 (raw values, no scale); transformers 5.24 `inkling2` (normed values,
scale H^-1/2).
"""

import torch

from day0_kernels.common.plain import rms, wide


def attn_residual(
    x: list[torch.Tensor],
    query: torch.Tensor,
    y: torch.Tensor,
    *,
    eps: float,
    scale: float = 1.0,
    normed_values: bool = False,
) -> None:
    """y [T, H] = sum_i a_i x_i, a = softmax over the sources i of scale * query . RMS(x_i).

    x: sources [T, H]; query [H] holds the norm's weight already. `normed_values`: the sum takes
    RMS(x_i) instead of x_i.
    """
    sources = torch.stack([source.to(wide(x[0])) for source in x])  # [sources, T, H]
    normed = rms(sources, eps)
    scores = normed @ query.to(sources.dtype) * scale  # [sources, T]
    weights = scores.softmax(0).unsqueeze(-1)
    y.copy_((weights * (normed if normed_values else sources)).sum(0))


def attn_residual_blocks(
    x: list[torch.Tensor],
    query: list[torch.Tensor],
    mixed: torch.Tensor,
    lse: torch.Tensor,
    *,
    eps: float,
    scale: float = 1.0,
    normed_values: bool = False,
) -> None:
    """Phase 1: mixed [T, Q*H], for each of Q queries `attn_residual` over the sources x alone, and
    lse [T, Q] fp32, the logarithm of the sum of exp(scores)."""
    sources = torch.stack([source.to(wide(x[0])) for source in x])  # [sources, T, H]
    normed = rms(sources, eps)
    queries = torch.stack([one.to(sources.dtype) for one in query])  # [Q, H]
    scores = torch.einsum("sth,qh->tqs", normed, queries) * scale
    lse.copy_(scores.logsumexp(-1))
    values = normed if normed_values else sources
    weighted = torch.einsum("tqs,sth->tqh", scores.softmax(-1), values)
    mixed.copy_(weighted.flatten(1))


def attn_residual_merge(
    x: torch.Tensor,
    mixed: torch.Tensor,
    lse: torch.Tensor,
    query: torch.Tensor,
    y: torch.Tensor,
    residual: torch.Tensor | None = None,
    norm_weight: torch.Tensor | None = None,
    residual_out: torch.Tensor | None = None,
    *,
    number: int,
    eps: float,
    scale: float = 1.0,
    normed_values: bool = False,
    norm_eps: float = 0.0,
) -> None:
    """Phase 2: y [T, H], query `number` of a phase 1 over its sources and the last one, x.

    With `residual` the last source is x + residual, which `residual_out` takes; with `norm_weight`
    [H] y is the RMS norm of what is mixed."""
    dtype = wide(x)
    last = x if residual is None else x + residual
    if residual_out is not None:
        residual_out.copy_(last)
    source, normed = last.to(dtype), rms(last.to(dtype), eps)
    score = normed @ query.to(dtype) * scale  # [T]
    share = (score - lse[:, number].to(dtype)).sigmoid().unsqueeze(-1)
    before = mixed.view(len(x), lse.shape[1], -1)[:, number].to(dtype)
    total = before + share * ((normed if normed_values else source) - before)
    if norm_weight is not None:
        total = rms(total, norm_eps) * norm_weight.to(dtype)
    y.copy_(total)
