"""Routing and row order together: one launch for few tokens."""

import torch
import triton
import triton.language as tl

from day0_kernels.moe_route import route, sort
from day0_kernels.moe_route.launch import FUSED_TOKENS, power_of_two
from day0_kernels.moe_route.route import route_block
from day0_kernels.moe_route.sort import count_all, rank_block, write_tiles


@triton.jit
def route_sort_kernel(
    logits, ids, bias, table, experts, weights, order, offsets, tiles, T, NT, stride_logits, eps,
    scale, E: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, G: tl.constexpr,
    TOP_G: tl.constexpr, GP: tl.constexpr, SP: tl.constexpr, BT: tl.constexpr,
    SCORE: tl.constexpr, TOP2: tl.constexpr, RENORMALISE: tl.constexpr, HAS_BIAS: tl.constexpr,
    HAS_TABLE: tl.constexpr, EP: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Grid (1,): one program routes all T <= BT tokens, then sorts the rows it wrote."""
    route_block(
        logits, ids, bias, table, experts, weights, 0, T, stride_logits, eps, scale,
        E, K, KP, G, TOP_G, GP, SP, BT, SCORE, TOP2, RENORMALISE, HAS_BIAS, HAS_TABLE,
    )  # fmt: skip
    # the experts are read back by other threads of this program
    tl.debug_barrier()
    rows = T * K
    write_tiles(count_all(experts, rows, E, EP, 256), offsets, tiles, NT, E, EP, BM, 32)
    for first in range(0, rows, 128):
        rank_block(experts, order, first, rows, E, 128, 128)


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
    """Write what `moe_route` and `moe_sort` write; one launch up to FUSED_TOKENS tokens.

    `workspace` as for `moe_sort`. Raises ValueError for a wrong shape, score or group count.
    """
    route.check(logits, experts, weights, ids, bias, table, score, top_k, num_groups, top_groups,
                group_score)  # fmt: skip
    tokens, num_experts = logits.shape
    flags = route.constants(logits, bias, table, score, top_k, num_groups, top_groups,
                            group_score, renormalise)  # fmt: skip
    if not 0 < tokens <= FUSED_TOKENS:
        if tokens:
            route.run(logits, experts, weights, ids, bias, table, renormalise_eps, scale, flags)
        sort.moe_sort(
            experts, order, offsets, tiles,
            num_experts=num_experts, block_m=block_m, workspace=workspace,
        )  # fmt: skip
        return
    sort.check(experts, order, offsets, tiles, num_experts, block_m)
    route_sort_kernel[(1,)](
        logits, ids, bias, table, experts, weights, order, offsets, tiles, tokens, tiles.shape[0],
        logits.stride(0), renormalise_eps, scale, BT=power_of_two(tokens),
        EP=power_of_two(num_experts + 1), BM=block_m,
        num_warps=min(max(power_of_two(tokens) // 2, 4), 16), **flags,
    )  # fmt: skip
