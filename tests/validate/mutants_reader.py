"""Faults that every way shares: a fact read wrongly, a definition that computes something else.
Only another implementation shows them."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import torch

from day0.ir.op import Op
from day0.runtime.opening import Opened, open_model
from tests import surgery
from tests.validate.mutant import Mutant, Patch, Switch, argument, attribute, part


def _indexers(op: Op) -> bool:
    return "indexer" in op.id


def _config(change: Callable[[dict[str, Any]], Any]) -> Switch:
    """Read from a changed config, run and compared with the files as they are."""

    def switch(patch: Patch, opened: Opened) -> Opened:
        assert opened.folder is not None
        folder = surgery.copy(opened.folder, opened.folder.with_name(opened.folder.name + "-read"))
        surgery.change_config(folder, change)
        wrong = open_model(str(folder), quant="fp32", backend="reference")
        return replace(wrong, folder=opened.folder, name=opened.name)

    return switch


def _shifted_layers(words: dict[str, Any]) -> None:
    kinds = words["layer_types"]
    assert kinds != kinds[1:] + kinds[:1]
    words["layer_types"] = kinds[1:] + kinds[:1]


def _without_query_scale(right: Callable[..., Any]) -> Callable[..., Any]:
    def prepared(*arguments: Any, head_dim: int, **given: Any) -> Any:
        q, *rest = right(*arguments, head_dim=head_dim, **given)
        return (q * head_dim**0.5, *rest)

    return prepared


def _no_tail(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: torch.full_like(right(*arguments), -1)


def _random_head(right: Callable[..., Any]) -> Callable[..., Any]:
    """Where a head has its own weights, because the tie was not read, they are never loaded."""

    @wraps(right)
    def linear(**given: Any) -> None:
        weight = given["weight"]
        given["weight"] = weight.flip(0) if weight.shape[0] == VOCABULARY[0] else weight
        right(**given)

    return linear


VOCABULARY = [0]


def _untied(patch: Patch, opened: Opened) -> Opened:
    VOCABULARY[0] = opened.model.spec.vocab_size
    return part("day0_kernels.basic.reference:linear", _random_head)(patch, opened)


def _yarn_left_out(patch: Patch, opened: Opened) -> Opened:
    op = next(op for op in opened.model.graphs["main"].ops if op.family == "mla")
    width = op.attr("nope_dim") + op.attr("rope_dim")
    return attribute("mla", "scale", lambda scale: width**-0.5)(patch, opened)


ROUTE = "day0_kernels.moe_route.reference:moe_route_general"
MUTANTS = (
    Mutant(name="indexer rope in the pairing of the attention", of="129, 132", kind="glm_moe_dsa",
           cell="oracle", families=("rope",), where=lambda op: op.family == "indexer",
           switch=attribute("rope", "pairing", lambda p: "interleaved" if p == "half" else "half",
                            _indexers)),
    Mutant(name="rope theta by default", of="12, 14", kind="llama", cell="oracle",
           families=("rope",), switch=attribute("rope", "theta", lambda theta: 10000.0)),
    Mutant(name="rope scaling not read", of="145", kind="llama", cell="oracle", families=("rope",),
           switch=attribute("rope", "scaling", lambda kind: "default", scaling_args=())),
    Mutant(name="yarn scale missing", of="16", kind="deepseek_v3", cell="oracle",
           families=("mla",), switch=_yarn_left_out),
    Mutant(name="query scale missing", of="query scale missing", kind="kimi_linear", cell="oracle",
           families=("kda",),
           switch=part("day0_kernels.kda.reference:prepared", _without_query_scale)),
    Mutant(name="decay by the other formula", of="153", kind="kimi_linear", cell="oracle",
           families=("kda",), switch=attribute("kda", "decay", lambda kind: "bounded",
                                               lower_bound=-5.0)),
    Mutant(name="routed scale missing", of="19", kind="deepseek_v3", cell="oracle",
           families=("moe_route",), switch=attribute("moe_route", "scale", lambda scale: 1.0)),
    Mutant(name="routed scale applied twice", of="20", kind="deepseek_v3", cell="oracle",
           families=("moe_route",),
           switch=attribute("moe_route", "scale", lambda scale: scale * scale)),
    Mutant(name="selection bias in bf16", of="23", kind="narrow-bias", cell="oracle",
           families=("moe_route",),
           switch=part(ROUTE, argument(
               bias=lambda g: None if g.get("bias") is None else g["bias"].bfloat16().float()))),
    Mutant(name="layer list off by one", of="27, 36", kind="gpt_oss", cell="oracle",
           families=("gqa",), switch=_config(_shifted_layers)),
    Mutant(name="zero-centred norm read as plain", of="norm", kind="qwen3_next", cell="oracle",
           families=("rmsnorm",), where=lambda op: op.family == "rmsnorm",
           switch=attribute("rmsnorm", "zero_centered", lambda flag: False,
                            lambda op: dict(op.attrs)["zero_centered"])),
    Mutant(name="tail tokens dropped", of="tail tokens dropped", kind="glm5_next", cell="oracle",
           families=("indexer",),
           switch=part("day0_kernels.indexer.reference:_tail", _no_tail)),
    Mutant(name="tied head not tied", of="9", kind="tied", cell="oracle", families=("linear",),
           where=lambda op: op.family == "linear" and op.layer < 0, switch=_untied),
)  # fmt: skip
