"""Public kernels for the same operation, timed beside ours where their packages are installed."""

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from day0_kernels.case import Case

Peer = tuple[Callable[[], Any], Callable[[], torch.Tensor]]


def peers(case: Case, arguments: dict[str, Any]) -> dict[str, Peer]:
    """Per peer a function to time and one that gives the output of the last call."""
    if not importlib.util.find_spec("fla"):
        return {}
    if case.pair == "prefill":
        return {"fla": _fla_prefill(arguments)}
    return {"fla": _fla_decode(arguments)} if case.pair == "decode" else {}


def _inputs(a: dict[str, Any], batch: int, tokens: int) -> dict[str, torch.Tensor]:
    """fla's tensors; it takes activated gates and maps value heads to key heads as we do."""
    nk, n, dk = a["num_key_heads"], a["num_heads"], a["head_dim"]
    beta = a.get("beta_scale", 1.0) * a["beta"].float().sigmoid()
    g = -a["a_log"].exp() * F.softplus(a["decay"].float() + a["dt_bias"])
    return {
        "q": a["q"].view(batch, tokens, nk, dk),
        "k": a["k"].view(batch, tokens, nk, dk),
        "v": a["v"].view(batch, tokens, n, a["value_dim"]),
        "g": g.view(batch, tokens, n),
        "beta": beta.to(a["v"].dtype).view(batch, tokens, n),
    }


def _fla_prefill(a: dict[str, Any]) -> Peer:
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    x, kept = _inputs(a, 1, a["q"].shape[0]), {}
    ragged = {"cu_seqlens": a["cu_seqlens"].long()} if a["slot"].shape[0] > 1 else {}

    @torch.no_grad()
    def call() -> None:
        kept["y"], _ = chunk_gated_delta_rule(
            **x, output_final_state=True, use_qk_l2norm_in_kernel=True, **ragged
        )

    return call, lambda: kept["y"]


def _fla_decode(a: dict[str, Any]) -> Peer:
    from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule

    x, kept = _inputs(a, a["q"].shape[0], 1), {}
    state = a["state"][a["slot"].long()].contiguous()

    @torch.no_grad()
    def call() -> None:
        kept["y"], _ = fused_recurrent_gated_delta_rule(
            **x, initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=True
        )

    return call, lambda: kept["y"]
