"""Public kernels for the same convolution, where installed."""

import importlib.util
from collections.abc import Callable
from typing import Any

import torch

from day0_kernels.case import Case


def peers(case: Case, arguments: dict[str, Any]) -> dict[str, tuple[Callable, Callable]]:
    """Per peer a function to time and one that gives its output."""
    if not importlib.util.find_spec("fla"):
        return {}
    from fla.modules.causal_conv1d import causal_conv1d, causal_conv1d_update

    a, kept = arguments, {}
    weight = a["weight"].squeeze(1).to(a["x"].dtype)
    if case.pair == "prefill":

        @torch.no_grad()
        def call() -> None:
            out = causal_conv1d(a["x"][None], weight=weight, activation="silu", backend="triton")
            kept["y"] = out[0] if isinstance(out, tuple) else out

        return {"fla": (call, lambda: kept["y"])}
    rows = a["tail"][a["slot"].long()].transpose(1, 2)
    cache = torch.cat((torch.zeros_like(rows[..., :1]), rows), dim=2).contiguous()

    @torch.no_grad()
    def update() -> None:
        kept["y"], _ = causal_conv1d_update(a["x"], cache, weight=weight, activation="silu")

    first = cache.clone()

    def output() -> torch.Tensor:
        cache.copy_(first)
        update()
        return kept["y"]

    return {"fla": (update, output)}
