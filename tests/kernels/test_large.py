"""Beyond 2^31 elements every op still addresses the right ones: the end of a large call equals the
same rows alone. Gigabytes, so on a GPU only."""

from typing import Any

import pytest
import torch

from day0_kernels.case import Case, load, op_module
from day0_kernels.compare import similarity_error

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="gigabytes"),
]
FAR = (262_200, 70)  # with 8,192 channels the second sequence lies beyond 2^31 elements
SLOTS = 2060  # states of 64 heads of 128 x 128
KDA = {"num_heads": 64, "head_dim": 128, "value_dim": 128, "decay": "bounded", "lower_bound": -5.0}
GDN = {"num_key_heads": 64, "num_heads": 64, "head_dim": 128, "value_dim": 128}
LIGHTNING = {"num_heads": 64, "head_dim": 128, "slope_scale": 0.8}
SINKHORN = {"num_streams": 4, "variant": "sinkhorn", "eps": 1e-6, "norm_eps": 1e-6,
            "magnitude": 2.0, "iterations": 20}  # fmt: skip


def _case(name: str, pair: str, attrs: dict[str, Any], **dims: Any) -> Case:
    return Case(name=name, pair=pair, attrs=attrs, dims=dims)


ROWS = {
    "kda": _case("kda", "prefill", KDA, lengths=FAR),
    "gdn": _case("gdn", "prefill", GDN, lengths=FAR),
    "lightning": _case("lightning", "prefill", LIGHTNING, lengths=FAR),
    "short_conv": _case("short_conv", "prefill", {"activation": "silu"}, lengths=FAR,
                        channels=8192, width=4),
    "gated_rmsnorm": _case("gated_rmsnorm", "norm", {"eps": 1e-6, "activation": "sigmoid"},
                           tokens=sum(FAR), heads=64, head_dim=128, pad=0),
    "attn_residual": _case("attn_residual", "mix",
                           {"eps": 1e-6, "scale": 1.0, "normed_values": False},
                           tokens=sum(FAR), width=8192, sources=3),
    "hyper-read": _case("hyper-read", "sinkhorn", SINKHORN, tokens=66_000, width=8192, mix=True),
    "hyper-write": _case("hyper-write", "write", {"num_streams": 4}, tokens=66_000, width=8192,
                         mix=True),
    "fp8_gemm": _case("fp8_gemm", "gemm", {}, m=sum(FAR), n=8192, k=128),
}  # fmt: skip
STATES = {
    "kda": _case("kda", "decode", KDA, lengths=(1,) * SLOTS, carried=range(SLOTS)),
    "gdn": _case("gdn", "decode", GDN, lengths=(1,) * SLOTS, carried=range(SLOTS)),
    "lightning": _case("lightning", "decode", LIGHTNING, lengths=(1,) * SLOTS,
                       carried=range(SLOTS)),
}  # fmt: skip


def _module(op: str) -> Any:
    return op_module("hyper_connection" if op.startswith("hyper") else op)


def _pair(op: str, case: Case) -> Any:
    return next(pair for pair in _module(op).PAIRS if pair.name == case.pair)


def _rows(arguments: dict[str, Any], tokens: int, part: slice, sequence: int) -> dict[str, Any]:
    """Copies of the rows `part` of everything with `tokens` rows, and of one sequence's numbers."""

    def cut(name: str, value: Any) -> Any:
        if isinstance(value, list):
            return [cut(name, one) for one in value]
        if not isinstance(value, torch.Tensor):
            return value
        if name == "cu_seqlens":
            return value.new_tensor([0, part.stop - part.start])
        if name in ("slot", "start"):
            return value[sequence : sequence + 1].clone()
        return value[part].clone() if value.ndim and value.shape[0] == tokens else value

    return {name: cut(name, value) for name, value in arguments.items()}


@pytest.mark.parametrize("op", ROWS)
def test_the_last_rows_are_those_rows_alone(op, device, generator):
    case = ROWS[op]
    pair = _pair(op, case)
    arguments = _module(op).inputs(case, device, generator)
    tokens = arguments[pair.outputs[0]].shape[0]
    assert max(t.numel() for t in arguments.values() if isinstance(t, torch.Tensor)) > 2**31
    alone = _rows(arguments, tokens, slice(tokens - FAR[1], tokens), len(FAR) - 1)
    if "state" in alone:
        alone["state"] = arguments["state"].clone()
    load(pair.kernel)(**arguments)
    load(pair.kernel)(**alone)
    outputs = [name for name in pair.outputs if arguments[name].shape[0] == tokens]
    for name in outputs:
        assert similarity_error(arguments[name][-FAR[1] :], alone[name]) < 1e-6, name
    if "state" in alone:
        at = int(alone["slot"][0])
        assert similarity_error(arguments["state"][at], alone["state"][at]) < 1e-6


@pytest.mark.parametrize("op", STATES)
def test_a_state_in_the_last_slot_is_that_state_alone(op, device, generator):
    case = STATES[op]
    pair = _pair(op, case)
    arguments = _module(op).inputs(case, device, generator)
    sequence = int(arguments["slot"].argmax())
    at = int(arguments["slot"][sequence])
    assert arguments["state"][:at].numel() > 2**31
    alone = _rows(arguments, SLOTS, slice(sequence, sequence + 1), sequence)
    alone["state"] = arguments["state"][at - 1 : at + 1].clone()
    alone["slot"].fill_(1)
    load(pair.kernel)(**arguments)
    load(pair.kernel)(**alone)
    output = pair.outputs[0]
    assert similarity_error(arguments[output][sequence], alone[output][0]) < 1e-6
    assert similarity_error(arguments["state"][at], alone["state"][1]) < 1e-6
