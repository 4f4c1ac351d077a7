"""Definitions of hashed n-gram features: lookup and gate (transformers 5.24 `qwen4_exp`)."""

import torch

from day0_kernels.common.plain import borders, wide


def ngram_embedding(
    ids: torch.Tensor,
    history: torch.Tensor,
    table: torch.Tensor,
    multipliers: torch.Tensor,
    head_sizes: torch.Tensor,
    head_offsets: torch.Tensor,
    y: torch.Tensor,
    cu_seqlens: torch.Tensor,
    *,
    num_heads: int,
    max_n: int,
    reset_id: int = -1,
) -> None:
    """y [T, num_heads * d]: rows of table [V, d], one per head, side by side.

    ids [T]; history [N, max_n - 1]: the ids before each sequence's first row of this step, oldest
    first, -1 before its start. Heads stand in order of n = 2 ... max_n, equally many each: row =
    (xor over p < n of id[t - p] * multiplier_p, int64 wrapping) mod head_size + head_offset, the
    remainder never negative. An id before the sequence's start counts as `reset_id`, and so does
    every id looked back to past a `reset_id` that lies before row t, and that one itself.
    """
    per_n = num_heads // (max_n - 1)
    home = table.device  # the host, where the table is large
    sizes, offsets = head_sizes.long().to(home), head_offsets.long().to(home)
    factors = multipliers.long().tolist()
    for index, (first, last) in enumerate(borders(cu_seqlens)):
        if first == last:
            continue
        context = torch.cat((history[index].long().to(home), ids[first:last].long().to(home)))
        looked = _looked_back(context, max_n, reset_id)  # max_n of [t]
        mixed, columns = looked[0] * factors[0], []
        for n in range(2, max_n + 1):
            mixed = mixed ^ (looked[n - 1] * factors[n - 1])  # [t]
            heads = slice((n - 2) * per_n, (n - 1) * per_n)
            columns.append(torch.remainder(mixed.unsqueeze(-1), sizes[heads]) + offsets[heads])
        rows = torch.cat(columns, dim=-1)  # [t, heads]
        y[first:last] = table[rows].flatten(1).to(device=y.device, dtype=y.dtype)


def _looked_back(context: torch.Tensor, max_n: int, reset_id: int) -> list[torch.Tensor]:
    """For p = 0, 1, ...: the id p rows back of each row after the first max_n - 1, or reset_id."""
    known = max_n - 1
    looked = [context[known:]]
    open_yet = torch.ones_like(looked[0], dtype=torch.bool)
    for back in range(1, max_n):
        older = context[known - back : context.shape[0] - back]
        open_yet = open_yet & (older >= 0) & (older != reset_id)
        looked.append(torch.where(open_yet, older, reset_id))
    return looked


def ngram_gate(
    key: torch.Tensor,
    query: torch.Tensor,
    value: torch.Tensor,
    y: torch.Tensor,
    *,
    num_streams: int,
) -> None:
    """y [T, m*H]: stream j is sigmoid(sign(s) sqrt(max(|s|, 1e-6))) * value, s = <key_j, query_j>
    / sqrt(H); key, query [T, m*H], value [T, H]."""
    dtype, rows, hidden = wide(key), key.shape[0], value.shape[-1]
    keys, queries = (part.to(dtype).view(rows, num_streams, hidden) for part in (key, query))
    score = (keys * queries).sum(-1, keepdim=True) / hidden**0.5  # [T, m, 1]
    factor = torch.sigmoid(score.sign() * score.abs().clamp(min=1e-6).sqrt())
    y.copy_((factor * value.to(dtype).unsqueeze(1)).flatten(1))
