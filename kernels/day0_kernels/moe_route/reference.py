"""Definition of expert routing and of the row order that a grouped matrix product wants.

Sources: transformers' routers (softmax, sigmoid with a selection bias, sqrt-softplus, softmax of
the chosen logits, group limit, table by token id). T tokens, E experts, k chosen, G groups.
Computed in fp32, or in fp64 if the logits are fp64. Among equal scores the lower expert wins.
"""

import torch
import torch.nn.functional as F

from day0_kernels.common.plain import widened

SCORES = ("softmax", "sigmoid", "sqrtsoftplus", "topk_softmax", "topk_sigmoid", "sparsemixer")


def scores(logits: torch.Tensor, score: str) -> torch.Tensor:
    """Scores [T, E] of the logits; the logits themselves where only chosen ones are scored."""
    x = widened(logits)
    if score == "softmax":
        return x.softmax(-1)
    if score == "sigmoid":
        return x.sigmoid()
    if score == "sqrtsoftplus":
        return F.softplus(x).sqrt()
    if score in ("topk_softmax", "topk_sigmoid", "sparsemixer"):
        return x
    raise ValueError(f"score must be one of {', '.join(SCORES)}, got {score!r}")


def best(values: torch.Tensor, count: int) -> torch.Tensor:
    """Places of the `count` largest along the last dim, the lower place first among equals."""
    return values.sort(dim=-1, descending=True, stable=True).indices[..., :count]


def group_limited(
    choice: torch.Tensor,
    num_groups: int,
    top_groups: int,
    group_score: str,
    outside: float = float("-inf"),
) -> torch.Tensor:
    """`choice` [T, E] with `outside` beyond the `top_groups` best of `num_groups` groups."""
    grouped = choice.unflatten(-1, (num_groups, -1))  # [T, G, E/G]
    ordered = grouped.sort(dim=-1, descending=True).values
    value = ordered[..., :2].sum(-1) if group_score == "top2" else ordered[..., 0]  # [T, G]
    kept = torch.zeros_like(value, dtype=torch.bool).scatter_(-1, best(value, top_groups), True)
    return grouped.masked_fill(~kept[..., None], outside).flatten(-2)


def moe_route(
    logits: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    table: torch.Tensor | None = None,
    *,
    score: str,
    top_k: int,
    num_groups: int = 1,
    top_groups: int = 1,
    group_score: str = "top2",
    renormalise: bool,
    renormalise_eps: float = 0.0,
    scale: float = 1.0,
) -> None:
    """Write `experts` int32 [T, k], best first, and `weights` [T, k].

    The bias takes part in the selection only. With `table` [V, k] the experts are those of the
    token ids `ids` [T].
    """
    moe_route_general(
        logits, experts, weights, ids, bias, table,
        score=score, top_k=top_k, num_groups=num_groups, top_groups=top_groups,
        group_score=group_score, renormalise=renormalise, renormalise_eps=renormalise_eps,
        scale=scale,
    )  # fmt: skip


def moe_sort(
    experts: torch.Tensor,
    order: torch.Tensor,
    offsets: torch.Tensor,
    tiles: torch.Tensor,
    *,
    num_experts: int,
    block_m: int,
    workspace: torch.Tensor | None = None,
) -> None:
    """Rows (token t, choice j), numbered t*k + j, in the order of their expert, stable.

    `order` int32 [T*k]: sorted place -> row. `offsets` int32 [E+1]: first place of each expert.
    `tiles` int32 [n, 4]: per tile of at most `block_m` places of one expert (expert, first place,
    end of the expert's places, number of tiles used), unused tiles -1. An expert outside 0..E-1
    (kept elsewhere under expert parallelism) sorts behind all others and gets no tile.
    """
    flat = experts.reshape(-1).long()
    key = torch.where((flat >= 0) & (flat < num_experts), flat, num_experts)
    order.copy_(key.sort(stable=True).indices)
    counts = torch.bincount(key, minlength=num_experts + 1)[:num_experts]
    offsets[0] = 0
    offsets[1:] = counts.cumsum(0)
    rows = [
        [e, first, int(offsets[e + 1])]
        for e in range(num_experts)
        for first in range(int(offsets[e]), int(offsets[e + 1]), block_m)
    ]
    rows = [[*row, len(rows)] for row in rows]
    tiles.fill_(-1)
    if rows:
        tiles[: len(rows)] = torch.tensor(rows, dtype=tiles.dtype, device=tiles.device)


def moe_route_sort(
    logits: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    order: torch.Tensor,
    offsets: torch.Tensor,
    tiles: torch.Tensor,
    ids: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    table: torch.Tensor | None = None,
    *,
    block_m: int,
    score: str,
    top_k: int,
    num_groups: int = 1,
    top_groups: int = 1,
    group_score: str = "top2",
    renormalise: bool,
    renormalise_eps: float = 0.0,
    scale: float = 1.0,
    workspace: torch.Tensor | None = None,
) -> None:
    """`moe_route`, then `moe_sort` of its experts."""
    moe_route(
        logits, experts, weights, ids, bias, table, score=score, top_k=top_k,
        num_groups=num_groups, top_groups=top_groups, group_score=group_score,
        renormalise=renormalise, renormalise_eps=renormalise_eps, scale=scale,
    )  # fmt: skip
    moe_sort(
        experts, order, offsets, tiles,
        num_experts=logits.shape[1], block_m=block_m, workspace=workspace,
    )  # fmt: skip


def moe_route_general(
    logits: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    table: torch.Tensor | None = None,
    *,
    score: str,
    top_k: int,
    num_groups: int = 1,
    top_groups: int = 1,
    group_score: str = "top2",
    left_out: str = "lowest",
    renormalise: bool,
    renormalise_eps: float = 0.0,
    scale: float = 1.0,
) -> None:
    """As `moe_route`; with `left_out` "zero" the experts outside the chosen groups compete with a
    score of 0 instead of -inf, as in transformers 5.24's deepseek_v2, axk2 and mistral_large4."""
    value = scores(logits, score)  # [T, E]
    if table is not None:
        chosen = table[ids.long()].long()  # [T, k]
    else:
        choice = value if bias is None else value + bias.to(value.dtype)
        if num_groups > 1:
            outside = 0.0 if left_out == "zero" else float("-inf")
            choice = group_limited(choice, num_groups, top_groups, group_score, outside)
        chosen = best(choice, top_k)
    w = value.gather(-1, chosen)
    if score == "topk_softmax":
        w = w.softmax(-1)
    elif score == "topk_sigmoid":
        w = w.sigmoid()
    elif score == "sparsemixer":
        w = _sparse_mixed(value, chosen)
    if renormalise:
        w = w / (w.sum(-1, keepdim=True) + renormalise_eps)
    experts.copy_(chosen)
    weights.copy_(w * scale)


def _sparse_mixed(logits: torch.Tensor, chosen: torch.Tensor, jitter: float = 0.01) -> torch.Tensor:
    """Weights [T, k] of Phi-3.5-MoE's experts, best first: each is the softmax over those not yet
    chosen whose logit is within 2 * jitter (relative) of the best one's (arXiv 2409.12136)."""
    left = logits.clone()
    found = []
    for place in range(chosen.shape[-1]):
        top = left.max(-1, keepdim=True).values
        scale = logits.abs().clamp(min=top)
        far = (top - logits) / scale > 2 * jitter
        gates = left.masked_fill(far, float("-inf")).softmax(-1)
        found.append(gates.gather(-1, chosen[:, place : place + 1]))
        left = left.scatter(-1, chosen[:, place : place + 1], float("-inf"))
    return torch.cat(found, dim=-1)
