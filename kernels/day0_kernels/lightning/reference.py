"""Definition of lightning attention (arXiv 2401.04658), token by token and in blocks."""

import torch

from day0_kernels.common.plain import borders, carried, wide


def lightning(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    state: torch.Tensor,
    y: torch.Tensor,
    cu_seqlens: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    slope_scale: float,
    first_head: int = 0,
    of_heads: int = 0,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write `y` [T, n*d] and update `state` [slots, n, d, d] in place, one token after another.

    q, k, v [T, n*d] activated. S <- e^-slope S + k (x) v; y = S^T q, no scale; slope_h =
    2^(-8 (h + 1) / n) * slope_scale. A slot is read only where start > 0. With `of_heads` these are
    the heads from `first_head` on of so many, and have their slopes.
    `workspace` is not used here.
    """
    dtype = wide(q)
    slope = slopes(num_heads, slope_scale, dtype, q.device, first_head, of_heads)
    queries, keys, values = (_heads(part, num_heads, dtype) for part in (q, k, v))
    for index, (first, last) in enumerate(borders(cu_seqlens)):
        if first == last:
            continue
        at = int(slot[index])
        s = carried(state[at], int(start[index]), dtype)
        for t in range(first, last):
            s = s * (-slope).exp() + keys[t].unsqueeze(-1) * values[t].unsqueeze(-2)
            y[t] = torch.einsum("nkv,nk->nv", s, queries[t]).flatten().to(y.dtype)
        state[at] = s.to(state.dtype)


def lightning_segment(
    k: torch.Tensor,
    v: torch.Tensor,
    transition_a: torch.Tensor,
    transition_b: torch.Tensor,
    cu_seqlens: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    slope_scale: float,
    workspace: torch.Tensor | None = None,
) -> None:
    """What the tokens make of any state: S_out = A S_in + B, for each sequence and head.

    Writes `transition_a` [N, n, d, d] (the decay of all tokens on the diagonal) and `transition_b`
    [N, n, d, d], the recurrence from zeros.
    """
    dtype = wide(k)
    slope = slopes(num_heads, slope_scale, dtype, k.device)
    keys, values = (_heads(part, num_heads, dtype) for part in (k, v))
    unit = torch.eye(head_dim, dtype=dtype, device=k.device)
    for index, (first, last) in enumerate(borders(cu_seqlens)):
        b = torch.zeros(num_heads, head_dim, head_dim, dtype=dtype, device=k.device)
        for t in range(first, last):
            b = b * (-slope).exp() + keys[t].unsqueeze(-1) * values[t].unsqueeze(-2)
        transition_a[index] = (-slope * (last - first)).exp() * unit
        transition_b[index] = b.to(transition_b.dtype)


def lightning_chunked(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    state: torch.Tensor,
    y: torch.Tensor,
    cu_seqlens: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    slope_scale: float,
    first_head: int = 0,
    of_heads: int = 0,
    chunk: int = 64,
) -> None:
    """As `lightning`, `chunk` tokens at a time: masked products inside, the state between."""
    dtype = wide(q)
    slope = slopes(num_heads, slope_scale, dtype, q.device, first_head, of_heads)
    queries, keys, values = (_heads(part, num_heads, dtype).transpose(0, 1) for part in (q, k, v))
    for index, (first, last) in enumerate(borders(cu_seqlens)):
        if first == last:
            continue
        at = int(slot[index])
        s = carried(state[at], int(start[index]), dtype)
        for begin in range(first, last, chunk):
            end = min(begin + chunk, last)
            number = torch.arange(1, end - begin + 1, device=q.device).to(dtype)  # [c]
            query, key, value = (part[:, begin:end] for part in (queries, keys, values))
            apart = (number.view(-1, 1) - number).clamp(min=0)
            inside = ((-slope * apart).exp() * (query @ key.transpose(1, 2))).tril()  # [n, c, c]
            reach = (-slope * number.view(1, -1, 1)).exp()  # [n, c, 1]
            out = inside @ value + reach * (query @ s)
            y[begin:end] = out.transpose(0, 1).flatten(1).to(y.dtype)
            rest = (-slope * (number[-1] - number).view(1, -1, 1)).exp()
            s = (-slope * number[-1]).exp() * s + (key * rest).transpose(1, 2) @ value
        state[at] = s.to(state.dtype)


def lightning_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    state: torch.Tensor,
    y: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    slope_scale: float,
) -> None:
    """One token per sequence (T = N): as `lightning` with every length 1; `state` in place."""
    lightning(
        q, k, v, state, y, torch.arange(q.shape[0] + 1), slot, start,
        num_heads=num_heads, head_dim=head_dim, slope_scale=slope_scale,
    )  # fmt: skip


def slopes(
    num_heads: int,
    slope_scale: float,
    dtype: torch.dtype,
    device: torch.device,
    first_head: int = 0,
    of_heads: int = 0,
) -> torch.Tensor:
    """[n, 1, 1] decay rate per head; of the heads from `first_head` on where there are `of_heads`
    in all."""
    heads = torch.arange(1, num_heads + 1, device=device).to(dtype) + first_head
    return (2.0 ** (-8.0 * heads / (of_heads or num_heads)) * slope_scale).view(-1, 1, 1)


def _heads(x: torch.Tensor, num_heads: int, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype).unflatten(-1, (num_heads, -1))  # [T, n, d], of no tokens too
