"""Public kernels for the same operation, timed beside ours where their packages are installed."""

import importlib.util
from collections.abc import Callable
from typing import Any

import torch

from day0_kernels.case import Case

Peer = tuple[Callable[[], Any], Callable[[], torch.Tensor]]


def peers(case: Case, arguments: dict[str, Any]) -> dict[str, Peer]:
    """Per peer a function to time and one that gives the output of the last call."""
    found: dict[str, Peer] = {}
    bounded = case.attrs["decay"] == "bounded"
    if case.pair == "prefill":
        if importlib.util.find_spec("fla"):
            found["fla"] = _fla_prefill(arguments)
        if importlib.util.find_spec("flash_kda") and bounded and arguments["head_dim"] == 128:
            found["flash_kda"] = _flash_kda(arguments)
    elif case.pair == "decode" and importlib.util.find_spec("fla"):
        found["fla"] = _fla_decode(arguments)
    return found


def _views(a: dict[str, Any]) -> dict[str, torch.Tensor]:
    n, dk, dv, tokens = a["num_heads"], a["head_dim"], a["value_dim"], a["q"].shape[0]
    return {
        "q": a["q"].view(1, tokens, n, dk),
        "k": a["k"].view(1, tokens, n, dk),
        "v": a["v"].view(1, tokens, n, dv),
        "g": a["gate"].view(1, tokens, n, dk),
        "beta": a["beta"].view(1, tokens, n),
    }


def _fla_prefill(a: dict[str, Any]) -> Peer:
    from fla.ops.kda import chunk_kda

    x, kept = _views(a), {}
    ragged = {"cu_seqlens": a["cu_seqlens"]} if a["slot"].shape[0] > 1 else {}
    bounded = a["decay"] == "bounded"

    @torch.no_grad()
    def call() -> None:
        kept["o"], _ = chunk_kda(
            **x, A_log=a["a_log"][: a["num_heads"]], dt_bias=a["dt_bias"],
            output_final_state=True, use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True,
            use_beta_sigmoid_in_kernel=True, safe_gate=bounded, lower_bound=a["lower_bound"],
            **ragged,
        )  # fmt: skip

    return call, lambda: kept["o"]


def _flash_kda(a: dict[str, Any]) -> Peer:
    import flash_kda

    x, n, dk = _views(a), a["num_heads"], a["head_dim"]
    o = torch.empty_like(x["v"])
    final = torch.empty(a["slot"].shape[0], n, dk, a["value_dim"], device=o.device)
    rate, bias = a["a_log"][:n].contiguous(), a["dt_bias"].view(n, dk)
    ragged = {"cu_seqlens": a["cu_seqlens"].long()} if a["slot"].shape[0] > 1 else {}

    def call() -> None:
        flash_kda.fwd(
            x["q"], x["k"], x["v"], x["g"], x["beta"], dk**-0.5, o, rate, bias,
            a["lower_bound"], final_state=final, **ragged,
        )  # fmt: skip

    return call, lambda: o


def _fla_decode(a: dict[str, Any]) -> Peer:
    from fla.ops.kda.fused_recurrent import fused_recurrent_kda_fwd

    n, dk, dv, batch = a["num_heads"], a["head_dim"], a["value_dim"], a["q"].shape[0]
    x = {name: value.view(batch, 1, n, -1) for name, value in _views(a).items()}
    x["beta"] = a["beta"].view(batch, 1, n)
    state = a["state"][a["slot"].long()].contiguous()
    first = state.clone()
    o = torch.empty(batch, 1, n, dv, device=state.device, dtype=a["v"].dtype)

    def call() -> None:
        fused_recurrent_kda_fwd(
            **x, A_log=a["a_log"][:n], dt_bias=a["dt_bias"], initial_state=state,
            scale=dk**-0.5, inplace_final_state=True, out=o, use_qk_l2norm_in_kernel=True,
            use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True,
            lower_bound=a["lower_bound"],
        )  # fmt: skip

    def output() -> torch.Tensor:
        state.copy_(first)
        call()
        return o

    return call, output
