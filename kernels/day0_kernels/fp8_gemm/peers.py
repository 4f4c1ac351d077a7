"""DeepGEMM's product of the same operands, timed beside ours where it is installed."""

import importlib.util
from collections.abc import Callable
from typing import Any

import torch

from day0_kernels.case import Case

Peer = tuple[Callable[[], Any], Callable[[], torch.Tensor]]


def peers(case: Case, arguments: dict[str, Any]) -> dict[str, Peer]:
    """Per peer a function to time and one that gives the output of the last call."""
    if not importlib.util.find_spec("deep_gemm"):
        return {}
    import deep_gemm

    a = arguments
    scale = deep_gemm.get_mn_major_tma_aligned_tensor(a["x_scale"])
    y = torch.empty_like(a["y"])
    left, right = (a["x"], scale), (a["weight"], a["weight_scale"])
    return {"deep_gemm": (lambda: deep_gemm.fp8_gemm_nt(left, right, y), lambda: y)}
