"""Recipes on the definitions: values rounded to what a narrow format holds, kept in wide buffers.

Sources: OCP MX v1.0 for E8M0 scales with the exponent ceil(log2(amax / 448)), taken from the bits;
DeepSeek-V3 (arXiv 2412.19437, section 3.3) for 128 x 128 blocks of weights and 1 x 128 tiles of
activations. Scales are amax / 448, the last tile of a dim may be ragged, E4M3 is clamped.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from day0.ir.op import Op
from day0.passes.quantize import Activation
from day0_kernels.common.functions import gated
from day0_kernels.common.plain import widened
from day0_kernels.experts.reference import each_expert, product
from day0_kernels.quant.reference import (
    FP8_MAX,
    MIN_AMAX,
    MX_GROUP,
    exponent,
    grouped,
    rounded,
)

Rounding = Callable[[torch.Tensor], torch.Tensor]
_BLOCK = re.compile(r"fp8_b(\d+)(?:x(\d+))?")
_TILE = re.compile(r"fp8_t(\d+)")


def rounding(format_name: str) -> Rounding | None:
    """x [..., N, K] -> the values it has in the format, fp32; None for formats that are not
    emulated (plain ones need no rounding, others are never written)."""
    if match := _BLOCK.fullmatch(format_name):
        rows, columns = int(match[1]), int(match[2] or match[1])
        return partial(in_blocks, rows=rows, columns=columns)
    if match := _TILE.fullmatch(format_name):
        return partial(in_tiles, size=int(match[1]))
    return {"mxfp8": in_mx, "fp8_channel": in_channels, "fp8_tensor": in_matrices}.get(format_name)


def in_tiles(x: torch.Tensor, size: int) -> torch.Tensor:
    """E4M3 with an fp32 scale for every `size` elements of the last dim."""
    groups, amax = grouped(x, size)
    return _scaled(groups, amax[..., None]).flatten(-2)[..., : x.shape[-1]]


def in_mx(x: torch.Tensor) -> torch.Tensor:
    """MXFP8: E4M3 with an E8M0 scale for every 32 elements of the last dim; nothing saturates."""
    groups, amax = grouped(x, MX_GROUP)
    power = (exponent(amax, "rceil") - 127).to(groups.dtype)[..., None]
    values = rounded(groups * torch.exp2(-power)) * torch.exp2(power)
    return values.flatten(-2)[..., : x.shape[-1]]


def in_blocks(x: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """E4M3 with an fp32 scale for every block of `rows` x `columns` of the last two dims."""
    height, width = x.shape[-2:]
    padded = F.pad(widened(x), (0, -width % columns, 0, -height % rows))
    split = padded.unflatten(-1, (-1, columns)).unflatten(-3, (-1, rows))  # [.., n, rows, k, cols]
    values = _scaled(split, split.abs().amax((-3, -1), keepdim=True))
    return values.flatten(-2).flatten(-3, -2)[..., :height, :width]


def in_channels(x: torch.Tensor) -> torch.Tensor:
    """E4M3 with an fp32 scale for every row."""
    return _scaled(widened(x), widened(x).abs().amax(-1, keepdim=True))


def in_matrices(x: torch.Tensor) -> torch.Tensor:
    """E4M3 with an fp32 scale for every matrix [N, K]."""
    return _scaled(widened(x), widened(x).abs().amax((-2, -1), keepdim=True))


def _scaled(x: torch.Tensor, amax: torch.Tensor) -> torch.Tensor:
    amax = amax.clamp_min(MIN_AMAX)
    return rounded(x * (FP8_MAX / amax)) * (amax / FP8_MAX)


def by_part(runs: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Rounding]]:
    """Roundings of cache entries, by cache and part; plain parts are left out."""
    found = {
        cache: {part: rounding(name) for part, name in parts.items()}
        for cache, parts in runs.items()
    }
    return {
        cache: {part: one for part, one in parts.items() if one is not None}
        for cache, parts in found.items()
    }


def emulated(
    op: Op, function: Callable[..., None], activations: tuple[Activation, ...]
) -> Callable[..., None]:
    """`function` behind the rounding of the op's inputs. Experts round rows inside, too."""
    roundings = {one.slot: _in_width(one) for one in activations}
    if not roundings:
        return function
    if op.family == "experts":
        function = partial(experts, inner=roundings.pop("h", None))

    def call(**given: Any) -> None:
        for slot, one in roundings.items():
            given[slot] = one(given[slot])
        function(**given)

    return call


def _in_width(one: Activation) -> Rounding:
    """Rounding of rows [T, C] in which tiles begin anew every `width` channels."""
    inner = rounding(one.format)
    assert inner is not None, f"{one.format} is not written on the fly"

    def call(x: torch.Tensor) -> torch.Tensor:
        return inner(x.unflatten(-1, (-1, one.width))).flatten(-2)

    return call


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
    *,
    num_experts: int,
    top_k: int,
    inner: Rounding | None,
    function: str,
    limit: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    linear_beta: float | None = None,
) -> None:
    """day0_kernels.experts.reference:experts with `inner` on the rows between its two products, in
    any format (the definition's own FP8 has tiles of 128)."""

    def feed_forward(rows: torch.Tensor, expert: int) -> torch.Tensor:
        h = gated(
            product(rows, expert, gate, None, gate_bias), product(rows, expert, up, None, up_bias),
            function, limit, alpha, beta, linear_beta,
        )  # fmt: skip
        return product(h if inner is None else inner(h), expert, down, None, down_bias)

    y.copy_(each_expert(widened(x), experts, weights, num_experts, feed_forward))
