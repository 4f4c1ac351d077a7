"""What the definitions share: the wide type, sequences of a step, softmax over a history."""

from collections.abc import Iterator

import torch


def wide(x: torch.Tensor) -> torch.dtype:
    """The type a definition computes in: fp32, or fp64 where its first input is fp64."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def widened(x: torch.Tensor) -> torch.Tensor:
    """`x` in its wide type."""
    return x.to(wide(x))


def borders(cu: torch.Tensor) -> list[tuple[int, int]]:
    """(first, one past the last) row of each sequence, from [N+1] borders."""
    values = [int(value) for value in cu.tolist()]
    return list(zip(values[:-1], values[1:], strict=True))


def histories(
    cu_seqlens: torch.Tensor, cu_history: torch.Tensor, history_first: torch.Tensor
) -> Iterator[tuple[slice, slice, int]]:
    """(its rows, its history's entries, position of the first entry) of each sequence with rows."""
    rows, entries = borders(cu_seqlens), borders(cu_history)
    for own, kept, at in zip(rows, entries, history_first.tolist(), strict=True):
        if own[0] < own[1]:
            yield slice(*own), slice(*kept), at


def carried(kept: torch.Tensor, start: int, dtype: torch.dtype) -> torch.Tensor:
    """What a slot holds, or zeros for a sequence that begins (start 0): a slot is never cleared."""
    return kept.to(dtype) if start > 0 else torch.zeros_like(kept, dtype=dtype)


def rms(x: torch.Tensor, eps: float) -> torch.Tensor:
    """x over the root of its last dim's mean square."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def causal(positions: torch.Tensor, first: int, entries: int, window: int = 0) -> torch.Tensor:
    """[t, s] whether a row at `positions` [t] sees the token entries at first, first + 1, ..."""
    at = torch.arange(first, first + entries, device=positions.device)  # [s]
    back = positions.view(-1, 1) - at  # [t, s]
    seen = back >= 0
    return seen & (back < window) if window else seen


def closed(positions: torch.Tensor, first: int, entries: int, size: int) -> torch.Tensor:
    """[t, s] whether pool first, first + 1, ... of `size` tokens ends at or before a row."""
    pools = torch.arange(first, first + entries, device=positions.device)  # [s]
    return (pools + 1) * size <= positions.view(-1, 1) + 1


def named(selected: torch.Tensor, first: int, entries: int, block: int = 1) -> torch.Tensor:
    """[..., s] whether entry first, first + 1, ... lies in a block of `selected` [..., k]."""
    blocks = (first + entries - 1) // block + 1 if entries else 1
    numbers = selected.long()
    beyond = (numbers < 0) | (numbers >= blocks)  # -1, or a block without entries yet
    table = torch.zeros(*numbers.shape[:-1], blocks + 1, dtype=torch.bool, device=numbers.device)
    table.scatter_(-1, torch.where(beyond, blocks, numbers), True)  # [..., blocks + 1]
    at = torch.arange(first, first + entries, device=numbers.device) // block  # [s]
    return table[..., at]


def softmax_over(
    scores: torch.Tensor, seen: torch.Tensor, sink: torch.Tensor | None = None
) -> torch.Tensor:
    """Softmax of [n, t, s] over the entries that are `seen` ([t, s] or [n, t, s]).

    `sink` [n]: one more logit per head, in the denominator only. A row that sees nothing gets
    zeros.
    """
    scores = scores.masked_fill(~seen, float("-inf"))
    if sink is not None:
        logit = sink.to(scores.dtype).view(-1, 1, 1).expand(*scores.shape[:2], 1)  # [n, t, 1]
        scores = torch.cat((scores, logit), dim=-1)
    return scores.softmax(-1)[..., : seen.shape[-1]].masked_fill(~seen, 0.0)
