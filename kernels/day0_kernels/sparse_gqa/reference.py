"""Definition of grouped-query attention over selected blocks of tokens (Qwen4-Exp, MiniMax-M3)."""

import torch

from day0_kernels.common.plain import causal, histories, named
from day0_kernels.gqa.reference import attended


def sparse_gqa(
    q: torch.Tensor,
    selected: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    y: torch.Tensor,
    cu_seqlens: torch.Tensor,
    positions: torch.Tensor,
    cu_history: torch.Tensor,
    history_first: torch.Tensor,
    sink: torch.Tensor | None = None,
    *,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    value_dim: int,
    scale: float,
    num_selected: int,
    block: int = 1,
    num_lists: int = 1,
) -> None:
    """Write `y` [T, n*dv]: as `gqa`, over the tokens <= p that lie in a selected block only.

    selected [T, lists * num_selected] int32: block numbers (token j lies in block j // block) in
    the row's sequence, -1 for none, in any order. Query heads l*n/lists ... follow list l.
    """
    for rows, entries, at in histories(cu_seqlens, cu_history, history_first):
        keys = key[entries]
        lists = selected[rows].view(-1, num_lists, num_selected)
        chosen = named(lists, at, len(keys), block).transpose(0, 1)  # [lists, t, s]
        chosen = chosen.repeat_interleave(num_heads // num_lists, dim=0)  # [n, t, s]
        out = attended(
            q[rows], keys, value[entries],
            chosen & causal(positions[rows], at, len(keys)), sink,
            num_heads=num_heads, num_kv_heads=num_kv_heads, scale=scale,
        )  # fmt: skip
        y[rows] = out.to(y.dtype)
