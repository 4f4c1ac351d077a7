"""How a sublayer's output joins the stream: plain add, with factors, onto the normed input."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.spec import Flow, Layer

BASE_FACTORS = {"mixer": "input_residual", "ffn": "post_attention_residual"}
SUM_FACTOR = "layer_scalar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """How a kind of residual is read and flows.

    `sees(at)`, `says(cfg)`: as for mechanisms, asked once per model with layer 0's names.
    `read(layer, name) -> spec` for sublayer `name` ("mixer" or "ffn"). `begin(spec, b, flow)`
    turns the embedding into the stream; `enter -> input` of the sublayer before its norm;
    `leave(spec, b, flow, y, normed, at, name)` joins the output; `finish -> hidden` before the
    final norm, with `at` the decoder's own scope.
    """

    stem: str
    spec: type
    sees: Callable[[Layer], bool]
    says: Callable[[Layer], bool]
    read: Callable[[Layer, str], Any]
    begin: Callable[[Any, Builder, Flow], None]
    enter: Callable[[Any, Builder, Flow, Scope, str], str]
    leave: Callable[[Any, Builder, Flow, str, str, Scope, str], None]
    finish: Callable[[Any, Builder, Flow, Scope], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    """x <- base * scale_x + y * scale_y, where base is x, or the normed input (MiniMax-01).
    `base_factor`: a learned factor on the base (Doge), `sum_factor` on the sum (Gemma 4), of one
    number or of one a channel; "" for none."""

    scale_x: float = 1.0
    scale_y: float = 1.0
    of_normed: bool = False
    base_factor: str = ""
    sum_factor: str = ""


def read(layer: Layer, name: str) -> Add:
    """MiniMax-01 weighs both terms and adds onto the normed input; `postnorm` says so in
    MiniMax-M1's files."""
    cfg = layer.cfg
    kind = "mlp" if name == "ffn" else {"linear": "linear_attn"}.get(layer.word, "full_attn")
    factor = BASE_FACTORS.get(name, "")
    if factor and layer.at.has(factor):
        return Add(base_factor=factor)
    scaled = layer.at.has(SUM_FACTOR) or (
        not layer.at.names and layer.cfg.get("residual.sum_factor", default=False)
    )
    if scaled and name == _last(layer):
        return Add(sum_factor=SUM_FACTOR)
    multiplier = _multiplier(layer)
    if cfg.get("residual.depth_scaled", default=False):
        place = 2 * (layer.index + 1) + (name == "ffn")
        return Add(scale_x=math.sqrt((place - 1) / place), scale_y=math.sqrt(1 / place))
    if cfg.word("apply_residual_connection_post_layernorm"):
        return Add(of_normed=True)
    if "residual.of_normed" not in cfg.known and not cfg.says("postnorm", *_keys(kind, "alpha")):
        return Add(scale_y=float(multiplier))
    return Add(
        scale_x=float(cfg.get(f"residual.{kind}.alpha", *_keys(kind, "alpha"), default=1.0)),
        scale_y=float(cfg.get(f"residual.{kind}.beta", *_keys(kind, "beta"), default=1.0)),
        of_normed=bool(cfg.get("residual.of_normed", "postnorm", assume=True, decisive=True)),
    )


def _last(layer: Layer) -> str:
    """The last sublayer of a layer that scales its sum."""
    if layer.at.names:
        return "per_layer" if layer.at.has("per_layer_input_gate.weight") else "ffn"
    return "per_layer" if layer.cfg.word("hidden_size_per_layer_input") else "ffn"


def _multiplier(layer: Layer) -> float:
    """MiniCPM divides by the root of the depth."""
    depth = layer.cfg.word("scale_depth")
    if depth:
        factor = depth / math.sqrt(layer.shape.num_layers)
        return layer.cfg.note("residual.multiplier", factor, "config", "config.json:scale_depth")
    return layer.cfg.get("residual.multiplier", "residual_multiplier", default=1.0)


def _keys(kind: str, factor: str) -> tuple[str, str]:
    """The key as transformers 5.24 writes it, and as MiniMax-01's and M1's own files do."""
    old = {"linear_attn": "linear_attention", "full_attn": "full_attention", "mlp": "mlp"}[kind]
    return f"{kind}_{factor}_factor", f"layernorm_{old}_{factor}"


def begin(spec: Add, b: Builder, flow: Flow) -> None:
    """The embedding is the stream."""


def enter(spec: Add, b: Builder, flow: Flow, at: Scope, name: str) -> str:
    return flow.x


def leave(spec: Add, b: Builder, flow: Flow, y: str, normed: str, at: Scope, name: str) -> None:
    base = normed if spec.of_normed else flow.x
    if spec.base_factor:
        base = _times(b, "base", base, spec.base_factor, at)
    inputs = {"a": base, "b": y}
    flow.x = b.op("add", "residual", inputs, scale_a=spec.scale_x, scale_b=spec.scale_y)["y"]
    if spec.sum_factor:
        flow.x = _times(b, "sum", flow.x, spec.sum_factor, at)


def _times(b: Builder, ident: str, x: str, name: str, at: Scope) -> str:
    size = (at.shape(name) or (1,))[0]
    weight = b.weight(f"{ident}_factor", at.leaf(name, (size,)), role="residual")
    return b.op("channel_scale", f"{ident}_scaled", {"x": x}, {"weight": weight})["y"]


def finish(spec: Add, b: Builder, flow: Flow, at: Scope) -> str:
    return flow.x


ADD = Residual(
    stem="residual",
    spec=Add,
    sees=lambda layer: True,
    says=lambda layer: True,
    read=read,
    begin=begin,
    enter=enter,
    leave=leave,
    finish=finish,
)
