"""Public grouped products for the same rows and weights, timed beside ours where installed.

They get rows that are already sorted by expert (and padded, for DeepGEMM's masked form), gate and
up in one tensor, and leave the activation and the weighting out: less work than ours does.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from day0_kernels.case import Case
from day0_kernels.quant.reference import tile_quantised

Peer = tuple[Callable[[], Any], Callable[[], torch.Tensor]]

MASKED_ROWS = 128  # rows an expert has room for in the masked form


def peers(case: Case, arguments: dict[str, Any]) -> dict[str, Peer]:
    """Per peer a function to time and one that gives the output of the last call, as ours is."""
    if case.pair not in ("gate_up", "gate_up_fp8", "down"):
        return {}
    a = _prepared(case, arguments)
    found: dict[str, Peer] = {}
    if a["fp8"]:
        if importlib.util.find_spec("deep_gemm"):
            found["deep_gemm"] = _contiguous(a) if case.dims.get("aligned") else _masked(a)
        return found
    found["torch grouped_mm"] = _torch(a)
    if importlib.util.find_spec("deep_gemm") and case.dims.get("aligned"):
        found["deep_gemm"] = _contiguous(a)
    return found


def _prepared(case: Case, arguments: dict[str, Any]) -> dict[str, Any]:
    """Sorted rows `a`, one weight `b` [E, n, k], their scales, and rows per expert."""
    order, tiles = arguments["order"].long(), arguments["tiles"]
    used = tiles[tiles[:, 0] >= 0]
    counts = torch.zeros(case.dims["num_experts"], dtype=torch.int32, device=order.device)
    begin = torch.zeros_like(counts)
    # the first tile of an expert comes first in the table
    for e, first, end, _ in reversed(used.tolist()):
        counts[e], begin[e] = end - first, first
    fp8 = case.dtype == "fp8"
    up = case.pair != "down"
    result: dict[str, Any] = {"fp8": fp8, "up": up, "counts": counts, "begin": begin}
    result["offsets"] = counts.cumsum(0).int()
    result["arguments"], result["order"] = arguments, order
    if up:
        tokens = order // arguments["top_k"]
        result["a"] = arguments["x"][tokens]
        result["b"] = torch.cat([arguments["gate"], arguments["up"]], dim=1)
        if fp8:
            result["a_scale"] = arguments["x_scale"][tokens]
            scales = [arguments["gate_scale"], arguments["up_scale"]]
            result["b_scale"] = torch.cat(scales, dim=1)
    else:
        result["a"], result["b"] = arguments["h"], arguments["down"]
        result["a_scale"], result["b_scale"] = arguments.get("h_scale"), arguments.get("down_scale")
    return result


def _finished(a: dict[str, Any], d: torch.Tensor) -> torch.Tensor:
    """A peer's product brought to what our kernel writes."""
    if a["up"]:
        gate, up = d.float().chunk(2, dim=-1)
        h = F.silu(gate) * up
        if not a["fp8"]:
            return h
        return tile_quantised(h)[0]
    rows = torch.empty_like(d, dtype=torch.float32)
    weights = a["arguments"]["weights"].flatten()[a["order"], None]
    rows[a["order"]] = d.float() * weights
    return rows


def _torch(a: dict[str, Any]) -> Peer:
    kept: dict[str, torch.Tensor] = {}
    b = a["b"].transpose(1, 2)

    def call() -> None:
        kept["d"] = torch._grouped_mm(a["a"], b, offs=a["offsets"])

    return call, lambda: _finished(a, kept["d"])


def _contiguous(a: dict[str, Any]) -> Peer:
    import deep_gemm

    rows, n = a["a"].shape[0], a["b"].shape[1]
    d = torch.empty(rows, n, device=a["a"].device, dtype=torch.bfloat16)
    experts = torch.arange(len(a["counts"]), dtype=torch.int32, device=d.device)
    layout = torch.repeat_interleave(experts, a["counts"])
    if a["fp8"]:
        scale = deep_gemm.get_mn_major_tma_aligned_tensor(a["a_scale"])
        left, right = (a["a"], scale), (a["b"], a["b_scale"])
        return (
            lambda: deep_gemm.m_grouped_fp8_gemm_nt_contiguous(left, right, d, layout),
            lambda: _finished(a, d),
        )
    return (
        lambda: deep_gemm.m_grouped_bf16_gemm_nt_contiguous(a["a"], a["b"], d, layout),
        lambda: _finished(a, d),
    )


def _masked(a: dict[str, Any]) -> Peer:
    import deep_gemm

    e, n, k = a["b"].shape
    device, counts = a["a"].device, a["counts"].long()
    expert = torch.repeat_interleave(torch.arange(e, device=device), counts)
    within = torch.arange(len(expert), device=device) - (counts.cumsum(0) - counts)[expert]
    rows = torch.zeros(e, MASKED_ROWS, k, device=device).to(a["a"].dtype)
    rows[expert, within] = a["a"]
    scales = torch.ones(e, MASKED_ROWS, a["a_scale"].shape[1], device=device)
    scales[expert, within] = a["a_scale"]
    scales = deep_gemm.get_mn_major_tma_aligned_tensor(scales)
    d = torch.zeros(e, MASKED_ROWS, n, device=device, dtype=torch.bfloat16)
    expected = max(1, -(-len(expert) // e))
    return (
        lambda: deep_gemm.m_grouped_fp8_gemm_nt_masked(
            (rows, scales), (a["b"], a["b_scale"]), d, a["counts"], expected
        ),
        lambda: _finished(a, d[expert, within]),
    )
