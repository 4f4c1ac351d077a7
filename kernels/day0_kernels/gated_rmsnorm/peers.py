"""Public kernels for the same norm, where installed."""

import importlib.util
from collections.abc import Callable
from typing import Any

import torch

from day0_kernels.case import Case


def peers(case: Case, arguments: dict[str, Any]) -> dict[str, tuple[Callable, Callable]]:
    """Per peer a function to time and one that gives its output."""
    if not importlib.util.find_spec("fla"):
        return {}
    from fla.modules.norm.fused_norm_gate import rms_norm_gated

    a, kept, head_dim = arguments, {}, case.dims["head_dim"]
    x, gate = a["x"].view(-1, head_dim), a["gate"].view(-1, head_dim)
    weight, activation = a["weight"], "swish" if a["activation"] == "silu" else "sigmoid"

    @torch.no_grad()
    def call() -> None:
        kept["y"] = rms_norm_gated(x, gate, weight, None, activation=activation, eps=a["eps"])

    return {"fla": (call, lambda: kept["y"])}
