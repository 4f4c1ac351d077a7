"""Plain causal attention of a prompt by torch: one sequence after another over its gathered
history, by whatever kernel scaled_dot_product_attention takes (on a GPU its flash kernel, which
reads grouped heads as they are)."""

import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

from day0_kernels.common.plain import histories


def gqa_gathered(
    q: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    y: torch.Tensor,
    cu_seqlens: torch.Tensor,
    positions: torch.Tensor,
    cu_history: torch.Tensor,
    history_first: torch.Tensor,
    *,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    value_dim: int,
    scale: float,
) -> None:
    """Write y [T, n*dv]; see `gqa` in reference.py, whose window, soft cap and sink this has not.
    Asks the host for the sequences' borders."""
    for rows, entries, _ in histories(cu_seqlens, cu_history, history_first):
        keys = key[entries].reshape(-1, num_kv_heads, head_dim)
        values = value[entries].reshape(-1, num_kv_heads, value_dim)
        queries = q[rows].view(-1, num_heads, head_dim)
        found = F.scaled_dot_product_attention(
            *(x.transpose(0, 1)[None] for x in (queries, keys, values)),
            attn_mask=causal_lower_right(len(queries), len(keys)),
            scale=scale,
            enable_gqa=num_heads != num_kv_heads,
        )  # fmt: skip
        y[rows].view(-1, num_heads, value_dim).copy_(found[0].transpose(0, 1))
