"""Routing in eager torch, timed beside ours; fused peers need large wheels, see README.md."""

from collections.abc import Callable
from typing import Any

import torch

from day0_kernels.case import Case

Peer = tuple[Callable[[], Any], Callable[[], torch.Tensor]]


def peers(case: Case, arguments: dict[str, Any]) -> dict[str, Peer]:
    """Per peer a function to time and one that gives the output of the last call."""
    a = arguments
    if a["score"] != "sigmoid" or a.get("num_groups", 1) > 1 or a["bias"] is None:
        return {}
    kept: dict[str, torch.Tensor] = {}

    def call() -> None:
        scores = a["logits"].sigmoid()
        chosen = (scores + a["bias"]).topk(a["top_k"], dim=-1).indices
        w = scores.gather(1, chosen)
        kept["weights"] = w / w.sum(-1, keepdim=True) * a.get("scale", 1.0)
        kept["experts"] = chosen

    return {"torch": (call, lambda: kept["experts"])}
