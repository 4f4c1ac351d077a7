"""Recipes on the definitions: values rounded to what a narrow format holds, kept in wide buffers.

The granularity is that of the real codes and scales, which codes.py makes.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from day0.ir.op import Op
from day0.passes.quantize import Activation
from day0.runtime.codes import coding
from day0_kernels.common.functions import gated
from day0_kernels.common.plain import widened
from day0_kernels.experts.reference import each_expert, product

Rounding = Callable[[torch.Tensor], torch.Tensor]


def rounding(format_name: str) -> Rounding | None:
    """x [..., N, K] -> the values it has in the format, fp32; None for formats that are not
    emulated (plain ones need no rounding, others are never written)."""
    found = coding(format_name)
    return None if found is None else found.values


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
    weigh_input: bool = False,
) -> None:
    """day0_kernels.experts.reference:experts with `inner` on the rows between its two products, in
    any format (the definition's own FP8 has tiles of 128)."""

    def feed_forward(rows: torch.Tensor, expert: int) -> torch.Tensor:
        h = gated(
            product(rows, expert, gate, None, gate_bias), product(rows, expert, up, None, up_bias),
            function, limit, alpha, beta, linear_beta,
        )  # fmt: skip
        return product(h if inner is None else inner(h), expert, down, None, down_bias)

    rows = widened(x)
    y.copy_(each_expert(rows, experts, weights, num_experts, feed_forward, weigh_input))
