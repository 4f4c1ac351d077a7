"""Routing, then the order of its rows."""

import torch

from day0_kernels.moe_route.route import moe_route
from day0_kernels.moe_route.sort import moe_sort


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
    """Write what `moe_route` and `moe_sort` write: two launches, three for many tokens.

    `workspace` as for `moe_sort`. Raises ValueError for a wrong shape, score or group count.
    """
    moe_route(
        logits, experts, weights, ids, bias, table, score=score, top_k=top_k,
        num_groups=num_groups, top_groups=top_groups, group_score=group_score,
        renormalise=renormalise, renormalise_eps=renormalise_eps, scale=scale,
    )  # fmt: skip
    moe_sort(
        experts, order, offsets, tiles,
        num_experts=logits.shape[1], block_m=block_m, workspace=workspace,
    )  # fmt: skip
