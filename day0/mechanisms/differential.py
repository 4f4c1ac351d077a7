"""Differential attention (arXiv 2410.05258): the second half of the heads is taken off the first,
times a learned factor; then a norm without weight (architectures.md 1a, diffllama)."""

import math
from dataclasses import dataclass

from day0.mechanisms import gqa
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.spec import Flow, Layer, Mechanism

LAMBDAS = ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Differential:
    """The plain attention and `lambda_init`, the factor's constant part, which grows with depth."""

    attention: gqa.Gqa
    lambda_init: float


def sees(layer: Layer) -> bool:
    return gqa.sees(layer) and layer.at.child(*gqa.MODULES).has(*LAMBDAS)


def says(layer: Layer) -> bool:
    return gqa.says(layer) and layer.cfg.says("lambda_std_dev")


def read(layer: Layer) -> Differential:
    init = 0.8 - 0.6 * math.exp(-0.3 * layer.index)
    return Differential(
        attention=gqa.read(layer),
        lambda_init=layer.cfg.note(
            "differential.lambda_init", init, "known", "arXiv 2410.05258: 0.8 - 0.6 exp(-0.3 l)"
        ),
    )


def flow(spec: Differential, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    at = at.child(*gqa.MODULES)
    own = spec.attention
    q, gate = gqa.queries(own, b, x, at)
    kv = gqa.keys_and_values(own, b, x, at)
    weights = {
        name: b.weight(name, at.leaf(name, (own.head_dim,)), role="state") for name in LAMBDAS
    }
    y = b.op(
        "differential", "attend", {"q": q}, weights, {"kv": (kv, "r")},
        num_heads=own.num_heads, num_kv_heads=own.num_kv_heads, head_dim=own.head_dim,
        scale=own.scale, window=own.window, lambda_init=spec.lambda_init, eps=own.norm_eps,
    )["y"]  # fmt: skip
    return gqa.output(own, b, y, gate, at, b.width(x))


DIFFERENTIAL = Mechanism(
    stem="differential", spec=Differential, sees=sees, says=says, read=read, flow=flow
)
