"""Definition of grouped-query softmax attention over a history of keys and values.

Source of the sink: transformers 5.24 `gpt_oss`; of the soft cap: `gemma2`.
"""

import torch

from day0_kernels.common.plain import causal, histories, rms, softmax_over, wide


def gqa(
    q: torch.Tensor,
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
    window: int = 0,
    softcap: float | None = None,
    chunked: bool = False,
    alibi: float = 0.0,
) -> None:
    """Write `y` [T, n*dv]: per head, softmax of scale * q . key over what the row sees.

    q [T, n*dk], key [S, nkv, dk], value [S, nkv, dv], sink [n]. A row at position p sees its own
    sequence's positions <= p, with a window those > p - window (so the row itself is one of them).
    Query heads h*n/nkv ... read key head h. `softcap`: cap * tanh(score / cap) before the softmax.
    `chunked`: a row sees its own sequence's positions >= the last multiple of the window instead.
    `alibi` > 0: minus slope * distance, slopes 2^(-alibi i / n) (arXiv 2108.12409).
    """
    for rows, entries, at in histories(cu_seqlens, cu_history, history_first):
        keys = key[entries]
        seen = causal(positions[rows], at, len(keys), 0 if chunked else window)  # [t, s]
        entry = torch.arange(at, at + len(keys), device=q.device)  # [s]
        if chunked:
            seen &= entry >= (positions[rows] // window * window).view(-1, 1)
        bias = None
        if alibi:
            distance = (entry - positions[rows].view(-1, 1)).to(wide(q))  # [t, s], none above 0
            bias = slopes(num_heads, alibi, distance) * distance  # [n, t, s]
        out = attended(
            q[rows], keys, value[entries], seen, sink,
            num_heads=num_heads, num_kv_heads=num_kv_heads, scale=scale, softcap=softcap,
            bias=bias,
        )  # fmt: skip
        y[rows] = out.to(y.dtype)


def attended(
    q: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    seen: torch.Tensor,
    sink: torch.Tensor | None,
    *,
    num_heads: int,
    num_kv_heads: int,
    scale: float,
    softcap: float | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """[t, n*dv] of one sequence; `seen` [t, s] or [n, t, s]; `bias` [n, t, s] on the scores."""
    dtype, tokens = wide(q), q.shape[0]
    share = num_heads // num_kv_heads
    queries = q.to(dtype).view(tokens, num_heads, -1).transpose(0, 1)  # [n, t, dk]
    keys, values = (
        part.to(dtype).reshape(part.shape[0], num_kv_heads, -1).transpose(0, 1)
        .repeat_interleave(share, dim=0)
        for part in (key, value)
    )  # fmt: skip
    scores = queries @ keys.transpose(1, 2) * scale  # [n, t, s]
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    out = softmax_over(scores, seen, sink) @ values  # [n, t, dv]
    return out.transpose(0, 1).reshape(tokens, -1)


def differential(
    q: torch.Tensor,
    lambda_q1: torch.Tensor,
    lambda_k1: torch.Tensor,
    lambda_q2: torch.Tensor,
    lambda_k2: torch.Tensor,
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
    scale: float,
    window: int = 0,
    lambda_init: float,
    eps: float,
) -> None:
    """Write `y` [T, n*d]: pairs (h, h + n/2) of heads, over values of 2*d channels.

    q [T, n*d]; key, value [S, nkv, d]; the lambdas [d]. Key head h reads the channels of value
    heads h mod nkv/2 and nkv/2 + h mod nkv/2. out = first - lambda * second, lambda = exp(q1 . k1)
    - exp(q2 . k2) + lambda_init; each pair normed by its root mean square, times 1 - lambda_init.
    Source: transformers 5.24 `diffllama` (arXiv 2410.05258).
    """
    dtype = wide(q)
    first, second = (
        (a.to(dtype) * b.to(dtype)).sum().exp()
        for a, b in ((lambda_q1, lambda_k1), (lambda_q2, lambda_k2))
    )
    factor = first - second + lambda_init
    for rows, entries, at in histories(cu_seqlens, cu_history, history_first):
        keys = key[entries]
        halves = value[entries].chunk(2, dim=1)  # [s, nkv/2, d] each
        joined = torch.cat([half.repeat(1, 2, 1) for half in halves], dim=-1)  # [s, nkv, 2d]
        seen = causal(positions[rows], at, len(keys), window)
        out = attended(
            q[rows], keys, joined, seen, None,
            num_heads=num_heads, num_kv_heads=num_kv_heads, scale=scale,
        ).view(-1, 2, num_heads // 2, 2 * head_dim)  # fmt: skip
        normed = rms(out[:, 0] - factor * out[:, 1], eps) * (1 - lambda_init)  # [t, n/2, 2d]
        y[rows] = normed.flatten(1).to(y.dtype)


def slopes(num_heads: int, alibi: float, like: torch.Tensor) -> torch.Tensor:
    """[n, 1, 1] slopes of ALiBi: 2^(-alibi i / m) for i = 1..m, the largest power of two m <= n;
    heads beyond m take the odd ones of twice as many."""
    whole = 1 << (num_heads.bit_length() - 1)
    found = [2.0 ** (-alibi * i / whole) for i in range(1, whole + 1)]
    found += [2.0 ** (-alibi * i / (2 * whole)) for i in range(1, 2 * whole, 2)]
    return torch.tensor(found[:num_heads], dtype=like.dtype, device=like.device).view(-1, 1, 1)
