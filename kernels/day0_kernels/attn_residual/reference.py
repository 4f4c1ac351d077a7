"""Definition of attention residuals: a softmax over depth by one learned query.

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
