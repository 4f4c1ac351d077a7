"""Definition of pooling: one cache entry for `size` consecutive tokens.

Sources: transformers 5.24 `deepseek_v4` (softmax, with overlap and without), `glm5_next`
(softmax), `qwen4_exp` (mean).
"""

from typing import Any

import torch

from day0_kernels.common.plain import borders, rms, wide
from day0_kernels.rope.reference import rotated


def compress(
    x: torch.Tensor,
    tail_entry: torch.Tensor,
    pooled_entry: torch.Tensor,
    cu_seqlens: torch.Tensor,
    cu_history: torch.Tensor,
    history_first: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    gate: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    norm_weight: torch.Tensor | None = None,
    tail_gate: torch.Tensor | None = None,
    *,
    size: int,
    rule: str,
    overlap: bool = False,
    norm: str = "none",
    norm_eps: float | None = None,
    zero_centered: bool = False,
    theta: float | None = None,
    scaling: str | None = None,
    scaling_args: tuple[tuple[str, Any], ...] | None = None,
    rope_dims: int = 0,
    rope_place: str = "first",
    rope_pairing: str = "none",
) -> None:
    """Write the pools that close in this step into `pooled_entry` [P, d], and the tails.

    x, gate [T, d], with `overlap` [T, 2*d] = [a | b]; position_bias [size, columns of x];
    norm_weight [d]. tail_entry, tail_gate [slots, span, columns]: the last `span` rows of each
    sequence, oldest first, read where start > 0; span >= size - 1, with overlap 2*size - 1.
    pooled_entry holds each sequence's pools history_first, ..., also those that close now.

    Pool j has rows j*size ... of its sequence. "mean": their mean. "softmax": per channel, the
    softmax over them of gate + position_bias times x. `overlap`: over the b halves of its own rows
    and the a halves of pool j - 1, each with its half of gate and position_bias (pool 0: b alone).
    Then the norm, then rotation at position j*size.
    """
    dtype = wide(x)
    history = borders(cu_history)
    for index, (first, last) in enumerate(borders(cu_seqlens)):
        if first == last:
            continue
        before, at = int(start[index]), int(slot[index])
        total = before + last - first
        values, oldest = _with_tail(x[first:last], tail_entry[at], before)
        gates = None
        if gate is not None and tail_gate is not None:
            gates = _with_tail(gate[first:last], tail_gate[at], before)[0]
        for pool in range(before // size, total // size):
            entry = _pooled(
                values.to(dtype), None if gates is None else gates.to(dtype),
                None if position_bias is None else position_bias.to(dtype),
                pool * size - oldest, rule, size, overlap and pool > 0, overlap,
            )  # fmt: skip
            if norm == "rms":
                entry = rms(entry, norm_eps)
                if norm_weight is not None:
                    factor = norm_weight.to(dtype)
                    entry = entry * (1 + factor if zero_centered else factor)
            if rope_dims:
                entry = rotated(
                    entry.view(1, 1, -1), torch.tensor([pool * size], device=x.device),
                    dims=rope_dims, place=rope_place, pairing=rope_pairing, inverse=False,
                    theta=theta, scaling=scaling, scaling_args=scaling_args,
                ).flatten()  # fmt: skip
            row = history[index][0] + pool - int(history_first[index])
            pooled_entry[row] = entry.to(pooled_entry.dtype)
        _keep(tail_entry[at], values)
        if gates is not None and tail_gate is not None:
            _keep(tail_gate[at], gates)


def _with_tail(rows: torch.Tensor, tail: torch.Tensor, before: int) -> tuple[torch.Tensor, int]:
    """(the kept rows and this step's, position of the first of them)."""
    kept = min(before, tail.shape[0])
    older = tail[tail.shape[0] - kept :].to(rows.dtype)
    return torch.cat((older, rows)), before - kept


def _keep(tail: torch.Tensor, rows: torch.Tensor) -> None:
    """The last rows into the tail's end; its begin stays where there are fewer."""
    count = min(tail.shape[0], rows.shape[0])
    tail[tail.shape[0] - count :] = rows[rows.shape[0] - count :].to(tail.dtype)


def _pooled(
    values: torch.Tensor,
    gates: torch.Tensor | None,
    position_bias: torch.Tensor | None,
    begin: int,
    rule: str,
    size: int,
    previous: bool,
    overlap: bool,
) -> torch.Tensor:
    """[d] the pool whose rows start at `begin`; `previous`: the rows before take part."""

    def halves(rows: torch.Tensor, at: int, stop: int) -> torch.Tensor:
        own = rows[at:stop]
        if not overlap:
            return own
        width = rows.shape[-1] // 2
        earlier = rows[at - size : at, :width] if previous else rows[:0, :width]
        return torch.cat((earlier, own[:, width:]))  # [size or 2*size, d]

    pool = halves(values, begin, begin + size)
    if rule == "mean":
        return pool.mean(0)
    logits = halves(gates, begin, begin + size)
    if position_bias is not None:
        bias = position_bias
        if overlap:
            width = bias.shape[-1] // 2
            own = bias[:, width:]
            bias = torch.cat((bias[:, :width], own)) if previous else own
        logits = logits + bias
    return (logits.softmax(0) * pool).sum(0)
