"""The definition through torch.compile: one fused kernel, the best peer that needs no wheel."""

from collections.abc import Callable
from typing import Any

import torch

from day0_kernels.case import Case
from day0_kernels.quant.reference import FP8, FP8_MAX

Peer = tuple[Callable[[], Any], Callable[[], torch.Tensor]]


def _tile(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    groups = x.float().unflatten(-1, (-1, 128))
    scale = groups.abs().amax(-1, keepdim=True).clamp_min(1e-10) / FP8_MAX
    return (groups / scale).to(FP8).flatten(-2), scale.squeeze(-1)


def _mx(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    groups = x.float().unflatten(-1, (-1, 32))
    amax = groups.abs().amax(-1, keepdim=True).clamp_min(1e-12)
    e = torch.ceil(torch.log2(amax / FP8_MAX)).clamp(-127, 127)
    return (groups * torch.exp2(-e)).to(FP8).flatten(-2), (e + 127).to(torch.uint8).squeeze(-1)


def peers(case: Case, arguments: dict[str, Any]) -> dict[str, Peer]:
    """Per peer a function to time and one that gives the output of the last call."""
    torch._dynamo.reset()
    compiled = torch.compile(_mx if case.pair == "mx" else _tile, dynamic=False)
    kept: dict[str, torch.Tensor] = {}

    def call() -> None:
        kept["q"], kept["scale"] = compiled(arguments["x"])

    return {"torch.compile": (call, lambda: kept["q"])}
