"""Definition of DeepSeek-V4's attention: an entry is key and value at once, a window of raw
entries beside pooled ones (transformers 5.24 `deepseek_v4`)."""

import torch

from day0_kernels.common.plain import borders, causal, closed, named, softmax_over, wide


def shared_kv(
    q: torch.Tensor,
    sink: torch.Tensor,
    window_kv: torch.Tensor,
    y: torch.Tensor,
    cu_seqlens: torch.Tensor,
    positions: torch.Tensor,
    window_cu_history: torch.Tensor,
    window_history_first: torch.Tensor,
    selected: torch.Tensor | None = None,
    compressed_entry: torch.Tensor | None = None,
    compressed_cu_history: torch.Tensor | None = None,
    compressed_history_first: torch.Tensor | None = None,
    *,
    num_heads: int,
    head_dim: int,
    scale: float,
    window: int,
    ratio: int = 0,
    num_selected: int = 0,
) -> None:
    """Write `y` [T, n*d]: one softmax over window and pools, `sink` [n] in its denominator.

    q [T, n*d]; window_kv [S, d] raw entries: a row at p sees p - window < j <= p.
    compressed_entry [P, d] (ratio > 0): pool j of `ratio` tokens is seen once its last token is
    <= p and, where num_selected > 0, selected [T, num_selected] names it (-1: none).
    """
    dtype = wide(q)
    raw, pools, pools_first = borders(window_cu_history), [], []
    if compressed_cu_history is not None and compressed_history_first is not None:
        pools, pools_first = borders(compressed_cu_history), compressed_history_first.tolist()
    for index, (first, last) in enumerate(borders(cu_seqlens)):
        if first == last:
            continue
        at = positions[first:last]
        start, stop = raw[index]
        entries = window_kv[start:stop].to(dtype)  # [s, d]
        seen = causal(at, int(window_history_first[index]), stop - start, window)
        if compressed_entry is not None:
            (start, stop), oldest = pools[index], pools_first[index]
            pooled = closed(at, oldest, stop - start, ratio)
            if selected is not None:
                pooled = pooled & named(selected[first:last], oldest, stop - start)
            entries = torch.cat((entries, compressed_entry[start:stop].to(dtype)))
            seen = torch.cat((seen, pooled), dim=-1)  # [t, s + p]
        queries = q[first:last].to(dtype).view(last - first, num_heads, head_dim)
        scores = torch.einsum("tnd,sd->nts", queries, entries) * scale
        out = softmax_over(scores, seen, sink) @ entries  # [n, t, d]
        y[first:last] = out.transpose(0, 1).reshape(last - first, -1).to(y.dtype)
