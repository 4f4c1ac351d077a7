"""Definition of the lightning indexers: scores over index keys, the best k named per row.

Sources: transformers 5.24 `deepseek_v32`, `glm5_next` (pooled keys with a tail), `qwen4_exp`
(averaged keys, no head weights), `minimax_m3_vl` (pooled scores, a list per head), `deepseek_v4`.
"""

import torch
import torch.nn.functional as F

from day0_kernels.common.plain import causal, closed, histories, wide


def indexer(
    q: torch.Tensor,
    entry: torch.Tensor,
    selected: torch.Tensor,
    cu_seqlens: torch.Tensor,
    positions: torch.Tensor,
    cu_history: torch.Tensor,
    history_first: torch.Tensor,
    head_weights: torch.Tensor | None = None,
    *,
    num_heads: int,
    head_dim: int,
    top_k: int,
    scale: float,
    relu: bool = True,
    pool: str = "none",
    block: int = 1,
    unit: str = "token",
    tail: bool = False,
    local_blocks: int = 0,
    num_lists: int = 1,
) -> None:
    """Write `selected` [T, lists * top_k] int32: ascending numbers per list, then -1.

    q [T, n*d], head_weights [T, n], entry [S, d]. Score of an entry: scale * sum over the list's
    heads of w_h * relu(q_h . entry). Entries are tokens (pool "none", "max") or pools of `block`
    tokens ("softmax", "mean"), which a row sees once they are closed. "max": a block scores as its
    best token that the row sees, and the `local_blocks` blocks up to the row's own win always.
    unit "token": the tokens of the best (top_k - tail) // block pools, and with `tail` those after
    the row's last closed pool; "block": numbers of pools or blocks. Of equal scores the lower
    number wins.
    """
    dtype = wide(q)
    for rows, entries, at in histories(cu_seqlens, cu_history, history_first):
        selected[rows] = chosen(
            q[rows].to(dtype), entry[entries].to(dtype), positions[rows], at,
            None if head_weights is None else head_weights[rows].to(dtype),
            num_heads=num_heads, top_k=top_k, scale=scale, relu=relu, pool=pool, block=block,
            unit=unit, tail=tail, local_blocks=local_blocks, num_lists=num_lists,
        ).to(selected.dtype)  # fmt: skip


def picks_of(*, top_k: int, pool: str, block: int, unit: str, tail: bool) -> tuple[int, int]:
    """(entries or blocks that a list of `top_k` numbers picks by score, numbers of each)."""
    each = block if pool in ("softmax", "mean") and unit == "token" else 1
    return (top_k - (block - 1 if tail else 0)) // each, each


def chosen(
    q: torch.Tensor, keys: torch.Tensor, positions: torch.Tensor, first: int,
    head_weights: torch.Tensor | None, *, num_heads: int, top_k: int, scale: float, relu: bool,
    pool: str, block: int, unit: str, tail: bool, local_blocks: int, num_lists: int,
) -> torch.Tensor:  # fmt: skip
    """[t, lists * top_k] for rows of one sequence, whose entries `first`, ... are `keys` [s, d]."""
    picks, each = picks_of(top_k=top_k, pool=pool, block=block, unit=unit, tail=tail)
    tokens, count, at = len(positions), len(keys), first
    scores = torch.einsum("tnd,sd->tns", q.view(tokens, num_heads, -1), keys)
    scores = F.relu(scores) if relu else scores
    if head_weights is not None:
        scores = scores * head_weights.unsqueeze(-1)
    scores = scores.view(tokens, num_lists, num_heads // num_lists, count).sum(2) * scale
    if pool in ("softmax", "mean"):
        seen = closed(positions, at, count, block)
    else:
        seen = causal(positions, at, count)
    scores = scores.masked_fill(~seen.unsqueeze(1), float("-inf"))  # [t, lists, s]
    if pool == "max":
        scores, at = _blocks(scores, positions, at, block, local_blocks)
    best = _best(scores, picks) + at  # [t, lists, picks], numbers from `at` on, below it: none
    best = best.masked_fill(best < at, -1)
    if each > 1:
        best = _tokens_of(best, block)
    if tail:
        best = torch.cat((best, _tail(positions, block, num_lists)), dim=-1)
    return _packed(best, top_k).flatten(1)


def _blocks(
    scores: torch.Tensor, positions: torch.Tensor, first: int, block: int, local_blocks: int
) -> tuple[torch.Tensor, int]:
    """([t, lists, blocks] the best score of each block, number of the first block)."""
    before = first % block
    after = -(before + scores.shape[-1]) % block
    padded = F.pad(scores, (before, after), value=float("-inf"))
    pooled = padded.unflatten(-1, (-1, block)).amax(-1)
    numbers = torch.arange(pooled.shape[-1], device=scores.device) + first // block
    back = (positions // block).view(-1, 1) - numbers  # [t, blocks]
    local = (back >= 0) & (back < local_blocks)
    return pooled.masked_fill(local.unsqueeze(1), float("inf")), first // block


def _best(scores: torch.Tensor, picks: int) -> torch.Tensor:
    """Where the `picks` best stand along the last dim; -1 where nothing is seen."""
    values, order = scores.sort(dim=-1, descending=True, stable=True)
    values, order = values[..., :picks], order[..., :picks]
    return order.masked_fill(values == float("-inf"), -1)


def _tokens_of(pools: torch.Tensor, block: int) -> torch.Tensor:
    """Numbers of all tokens of the pools; -1 stays."""
    offsets = torch.arange(block, device=pools.device)
    tokens = pools.unsqueeze(-1) * block + offsets  # [t, lists, picks, block]
    return tokens.masked_fill(pools.unsqueeze(-1) < 0, -1).flatten(-2)


def _tail(positions: torch.Tensor, block: int, num_lists: int) -> torch.Tensor:
    """[t, lists, block - 1] the tokens of the row's open pool up to itself."""
    begin = (positions + 1) // block * block
    tokens = begin.view(-1, 1) + torch.arange(block - 1, device=positions.device)
    tokens = tokens.masked_fill(tokens > positions.view(-1, 1), -1)
    return tokens.unsqueeze(1).expand(-1, num_lists, -1)


def _packed(numbers: torch.Tensor, width: int) -> torch.Tensor:
    """Ascending, -1 last, `width` of them."""
    beyond = torch.iinfo(numbers.dtype).max
    numbers = numbers.masked_fill(numbers < 0, beyond).sort(dim=-1).values
    numbers = numbers.masked_fill(numbers == beyond, -1)
    return F.pad(numbers, (0, width - numbers.shape[-1]), value=-1)
