"""The whole operator: sort, (quantise,) gate and up, down, combine."""

import torch

from day0_kernels.common.arguments import check_shape
from day0_kernels.common.workspace import cut
from day0_kernels.experts.first import run as run_gate_up
from day0_kernels.experts.launch import block_m
from day0_kernels.experts.scratch import FP8, scratch
from day0_kernels.experts.second import run as run_down
from day0_kernels.experts.total import combine
from day0_kernels.moe_route.sort import moe_sort
from day0_kernels.quant.quantise import quant_tile


def experts(
    x: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    gate: torch.Tensor,
    up: torch.Tensor,
    down: torch.Tensor,
    y: torch.Tensor,
    gate_bias: torch.Tensor | None = None,
    up_bias: torch.Tensor | None = None,
    down_bias: torch.Tensor | None = None,
    gate_scale: torch.Tensor | None = None,
    up_scale: torch.Tensor | None = None,
    down_scale: torch.Tensor | None = None,
    x_scale: torch.Tensor | None = None,
    order: torch.Tensor | None = None,
    tiles: torch.Tensor | None = None,
    *,
    num_experts: int,
    top_k: int,
    function: str,
    limit: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    linear_beta: float | None = None,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write `y` [T, H]; see reference.py. Three launches, one more to sort, one more for FP8
    without `x_scale`.

    `order` and `tiles` are those of `moe_route_sort` with the block_m of launch.py. `workspace`
    (uint8, `workspace_bytes`) holds the scratch; without it scratch is allocated. Raises
    ValueError for a wrong shape, stride or function.
    """
    tokens, channels = x.shape
    fp8 = gate.dtype == FP8
    check_shape("experts", experts, "T, k", (tokens, top_k))
    check_shape("weights", weights, "T, k", (tokens, top_k))
    check_shape("y", y, "T, H", (tokens, channels))
    check_shape("gate", gate, "E, I, H", (num_experts, gate.shape[1], channels))
    if tokens == 0:
        return
    shapes = scratch(
        num_tokens=tokens, num_experts=num_experts, top_k=top_k, channels=channels,
        inner=gate.shape[1], dtype=y.dtype, fp8=fp8,
    )  # fmt: skip
    part = cut(shapes, workspace, x.device)
    tile = block_m(num_rows=tokens * top_k, num_experts=num_experts)
    if order is None or tiles is None:
        order, tiles = part["order"], part["tiles"]
        moe_sort(
            experts, order, part["offsets"], tiles,
            num_experts=num_experts, block_m=tile, workspace=part["counts"],
        )  # fmt: skip
    rows = x
    if fp8 and x_scale is None:
        rows, x_scale = part["x"], part["x_scale"]
        quant_tile(x, rows, x_scale)
    run_gate_up(
        rows, order, tiles, gate, up, part["h"], gate_bias, up_bias, x_scale,
        gate_scale, up_scale, part.get("h_scale"), top_k, tile, function, limit, alpha, beta,
        linear_beta,
    )  # fmt: skip
    run_down(
        part["h"], order, tiles, weights, down, part["partial"], down_bias, part.get("h_scale"),
        down_scale, tile,
    )  # fmt: skip
    combine(part["partial"], experts, y, num_experts=num_experts)
