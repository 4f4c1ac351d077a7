"""Definition of the routed experts, expert by expert.

y[t] = sum over the choices j of weights[t, j] * (down_e h + down_bias_e), e = experts[t, j],
h = f(gate_e x + gate_bias_e, up_e x + up_bias_e) in the dtype of x. Sources: the feed-forwards of
transformers; clamps and constants as in its deepseek_v4, gpt_oss, minimax_m3 and the Kimi-K3 code.

FP8 (scales given): weights have one scale per 128 x 128 block; x and h are quantised with one
scale per row and 128 channels (quant/reference.py). T tokens, E experts, k choices, H channels, I
inner channels. Computed in fp32, or in fp64 if x is fp64.
"""

from collections.abc import Callable

import torch

from day0_kernels.common.functions import gated
from day0_kernels.common.plain import wide, widened
from day0_kernels.quant.reference import blocks_of, rows_of, tile_quantised


def each_expert(
    rows: torch.Tensor,
    experts: torch.Tensor,
    weights: torch.Tensor,
    num_experts: int,
    feed_forward: Callable[[torch.Tensor, int], torch.Tensor],
    weigh_input: bool = False,
) -> torch.Tensor:
    """[T, H] the weighted sum of `feed_forward(an expert's rows, expert)`; others are elsewhere.
    `weigh_input`: the weight is a factor of the rows instead."""
    total = torch.zeros_like(rows)
    for expert in experts.unique().tolist():
        if not 0 <= expert < num_experts:
            continue
        token, choice = (experts == expert).nonzero(as_tuple=True)
        weight = weights[token, choice, None].to(rows.dtype)
        own = rows[token]
        out = feed_forward(own * weight if weigh_input else own, expert)
        total.index_add_(0, token, out if weigh_input else out * weight.to(out.dtype))
    return total


def product(
    x: torch.Tensor,
    expert: int,
    weight: torch.Tensor,
    scale: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    """x W^T + b of one expert, in the dtype of x."""
    y = x @ blocks_of(weight[expert], None if scale is None else scale[expert], x.dtype).mT
    return y if bias is None else y + bias[expert].to(y.dtype)


def gate_up(
    x: torch.Tensor,
    order: torch.Tensor,
    tiles: torch.Tensor,
    gate: torch.Tensor,
    up: torch.Tensor,
    h: torch.Tensor,
    gate_bias: torch.Tensor | None = None,
    up_bias: torch.Tensor | None = None,
    x_scale: torch.Tensor | None = None,
    gate_scale: torch.Tensor | None = None,
    up_scale: torch.Tensor | None = None,
    h_scale: torch.Tensor | None = None,
    *,
    top_k: int,
    block_m: int,
    function: str,
    limit: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    linear_beta: float | None = None,
) -> None:
    """Write `h` [T*k, I] at the places of `order`: the hidden rows, by expert.

    With scales, `h` is FP8 and `h_scale` [T*k, I/128] its scales.
    """
    for expert, first, end, _ in tiles.tolist():
        if expert < 0:
            continue
        places = slice(first, min(first + block_m, end))
        tokens = order[places].long() // top_k
        rows = rows_of(x[tokens], None if x_scale is None else x_scale[tokens], wide(x))
        inner = gated(
            product(rows, expert, gate, gate_scale, gate_bias),
            product(rows, expert, up, up_scale, up_bias),
            function, limit, alpha, beta, linear_beta,
        )  # fmt: skip
        if h_scale is not None:
            inner, factors = tile_quantised(inner)
            h_scale[places] = factors.to(h_scale.dtype)
        h[places] = inner.to(h.dtype)


def down(
    h: torch.Tensor,
    order: torch.Tensor,
    tiles: torch.Tensor,
    weights: torch.Tensor,
    down: torch.Tensor,
    partial: torch.Tensor,
    down_bias: torch.Tensor | None = None,
    h_scale: torch.Tensor | None = None,
    down_scale: torch.Tensor | None = None,
    *,
    block_m: int,
) -> None:
    """Write `partial` [T*k, H] in row order (token t, choice j at t*k + j), weighted."""
    for expert, first, end, _ in tiles.tolist():
        if expert < 0:
            continue
        places = slice(first, min(first + block_m, end))
        rows = order[places].long()
        inner = rows_of(h[places], None if h_scale is None else h_scale[places], wide(h))
        out = product(inner, expert, down, down_scale, down_bias)
        partial[rows] = (out * weights.flatten()[rows, None].to(out.dtype)).to(partial.dtype)


def combine(
    partial: torch.Tensor, experts: torch.Tensor, y: torch.Tensor, *, num_experts: int
) -> None:
    """Write `y` [T, H]: the sum of a token's rows of `partial`, without experts kept elsewhere."""
    here = (experts >= 0) & (experts < num_experts)  # [T, k]
    rows = widened(partial).unflatten(0, experts.shape)  # [T, k, H]
    y.copy_(torch.where(here[..., None], rows, 0.0).sum(1))


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
    weigh_input: bool = False,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write `y` [T, H]. `gate` and `up` [E, I, H], `down` [E, H, I]; see the top of the file.
    With `x_scale` [T, ceil(H/128)] x is FP8 already.

    `order` and `tiles` say nothing new: they spare a kernel the sorting of `experts`.
    """
    dtype = wide(x)
    if gate_scale is None:
        rows = x.to(dtype)
    else:
        rows = rows_of(*(tile_quantised(x) if x_scale is None else (x, x_scale)), dtype)

    def feed_forward(rows: torch.Tensor, expert: int) -> torch.Tensor:
        h = gated(
            product(rows, expert, gate, gate_scale, gate_bias),
            product(rows, expert, up, up_scale, up_bias),
            function, limit, alpha, beta, linear_beta,
        )  # fmt: skip
        # between the products h lies in memory: as FP8, or in the dtype of x
        h = h.to(x.dtype).to(dtype) if down_scale is None else rows_of(*tile_quantised(h), dtype)
        return product(h, expert, down, down_scale, down_bias)

    y.copy_(each_expert(rows, experts, weights, num_experts, feed_forward, weigh_input))
