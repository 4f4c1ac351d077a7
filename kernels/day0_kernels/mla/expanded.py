"""Dense latent attention of a prompt by torch: keys and values are expanded for every head, then
scaled_dot_product_attention runs one sequence after another.

Expanding costs 2 s n r (dn + dv) operations for s entries; the attention itself t s n (2 dn + ...)
with t rows, so that for long chunks it is a small part and the library's kernel rules.
"""

import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

from day0_kernels.common.plain import histories


def mla_expanded(
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
    """Write y [T, n*dv]; see `mla` in reference.py. Asks the host for the sequences' borders.
    Raises ValueError for a window or a sink."""
    if window or sink is not None:
        raise ValueError("mla_expanded has neither window nor sink")
    for rows, entries, _ in histories(cu_seqlens, cu_history, history_first):
        own = latent[entries]
        count = len(own)
        keys = F.linear(own, w_uk).view(count, num_heads, nope_dim)
        if k_rope is not None:
            shared = k_rope[entries].view(count, 1, rope_dim).expand(-1, num_heads, -1)
            keys = torch.cat((keys, shared), dim=-1)
        values = F.linear(own, w_uv).view(count, num_heads, value_dim)
        queries = q[rows].view(-1, num_heads, nope_dim + rope_dim)
        # one width for all three, which the fast kernels ask for
        values = F.pad(values, (0, nope_dim + rope_dim - value_dim))
        found = F.scaled_dot_product_attention(
            *(x.transpose(0, 1)[None] for x in (queries, keys, values)),
            attn_mask=causal_lower_right(len(queries), count),
            scale=scale,
        )  # fmt: skip
        y[rows].view(-1, num_heads, value_dim).copy_(found[0, ..., :value_dim].transpose(0, 1))
