"""Alternating updates with learned augmented residuals: m streams, one of them computed (Gemma 3n;
arXiv 2301.13310 and 2411.07501)."""

import math
from dataclasses import dataclass

from day0.mechanisms import norm
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.residual import Residual
from day0.mechanisms.spec import Flow, Layer

IN = "altup_projections.{e}.weight"
OUT = "altup_unembed_projections.{e}.weight"
PREDICTED, ACTIVE = "altup.predicted", "altup.active"


@dataclass(frozen=True, slots=True, kw_only=True)
class Altup:
    """`active`: the stream that layers compute. `rank` of the augmented residual beside attention.
    `scaled`: what the layer's own embedding reads is scaled by a learned vector."""

    num_streams: int
    active: int
    rank: int
    scaled: bool
    eps: float


def sees(layer: Layer) -> bool:
    return layer.at.has("altup.modality_router.weight")


def says(layer: Layer) -> bool:
    return layer.cfg.says("altup_num_inputs")


def read(layer: Layer, name: str) -> Altup:
    cfg, at = layer.cfg, layer.at
    cfg.word("altup_coef_clip")  # of training
    return Altup(
        num_streams=cfg.get(
            "altup.num_streams", "altup_num_inputs",
            derive=lambda: at.dim(0, "altup.modality_router.weight"),
        ),
        active=cfg.get("altup.active", "altup_active_idx", assume=0, decisive=True),
        rank=cfg.get(
            "altup.rank", "laurel_rank", derive=lambda: at.dim(0, "laurel.linear_left.weight")
        ),
        scaled=bool(cfg.get("altup.scaled", "altup_correct_scale", default=True)),
        eps=layer.shape.norm_eps,
    )  # fmt: skip


def begin(spec: Altup, b: Builder, flow: Flow) -> None:
    """Left to the first layer, which knows the decoder's own names."""


def enter(spec: Altup, b: Builder, flow: Flow, at: Scope, name: str) -> str:
    if name != "mixer":
        return flow.kept[ACTIVE]
    if PREDICTED not in flow.kept:
        flow.x = _ends(spec, b, "altup_expand", flow.x, IN, at.root(), "altup.expand")
    found = _routed(spec, b, "altup_predict", {"x": flow.x}, at, "prediction", spec.num_streams**2)
    flow.kept[PREDICTED], flow.kept[ACTIVE] = found["streams"], found["y"]
    return found["y"]


def leave(spec: Altup, b: Builder, flow: Flow, y: str, normed: str, at: Scope, name: str) -> None:
    if name == "mixer":
        flow.kept[ACTIVE] = _augmented(spec, b, flow.kept[ACTIVE], y, normed, at)
    elif name == "ffn":
        done = b.op("add", "residual", {"a": flow.kept[ACTIVE], "b": y})["y"]
        inputs = {"x": flow.kept[PREDICTED], "update": done}
        found = _routed(spec, b, "altup_correct", inputs, at, "correction", spec.num_streams)
        flow.x, first = found["streams"], found["y"]
        if spec.scaled:
            leaf = at.leaf("altup.correct_output_scale", (b.width(first),))
            weights = {"weight": b.weight("output_scale", leaf, role="residual")}
            first = b.op("channel_scale", "scaled", {"x": first}, weights)["y"]
        flow.kept[ACTIVE] = first
    else:
        others = b.op("streams", "others", {"x": y}, num_streams=spec.num_streams, rule="others")
        flow.x = b.op("add", "residual", {"a": flow.x, "b": others["y"]})["y"]


def finish(spec: Altup, b: Builder, flow: Flow, at: Scope) -> str:
    return _ends(spec, b, "altup_merge", flow.x, OUT, at, "altup.merge")


def _ends(spec: Altup, b: Builder, family: str, x: str, names: str, root: Scope, ident: str) -> str:
    merge = family == "altup_merge"
    width = b.width(x) // spec.num_streams if merge else b.width(x)
    source = root.stack(names, spec.num_streams - 1, (width, width))
    weights = {"projections": b.weight(ident, source, role="residual", top=True)}
    if merge:
        return b.op(family, "streams", {"x": x}, weights, num_streams=spec.num_streams)["y"]
    return b.op(family, "streams", {"x": x}, weights)["y"]


def _routed(
    spec: Altup, b: Builder, family: str, inputs: dict[str, str], at: Scope, stem: str, rows: int
) -> dict[str, str]:
    """Prediction or correction: the router of the layer, and coefficients of its own."""
    inner = at.child("altup")
    width, count = b.width(inputs["x"]) // spec.num_streams, spec.num_streams
    shapes = {
        "norm": ("router_norm.weight", (width,)),
        "router": ("modality_router.weight", (count, width)),
        "coefficients": (f"{stem}_coefs.weight", (rows, count)),
    }
    shared = b.path.partition("mixer.")[0].partition("ffn.")[0]
    weights = {}
    for slot, (tensor, dims) in shapes.items():
        name = f"{shared}altup.{stem if slot == 'coefficients' else slot}"
        if name not in b.weights:
            role = "norm" if slot == "norm" else "residual"
            b.weight(name, inner.leaf(tensor, dims), role=role, top=True)
        weights[slot] = name
    return b.op(
        family, stem, inputs, weights,
        num_streams=spec.num_streams, active=spec.active, eps=spec.eps,
    )  # fmt: skip


def _augmented(spec: Altup, b: Builder, active: str, y: str, normed: str, at: Scope) -> str:
    """(active + y + normed + norm of its low-rank image) / sqrt 2."""
    inner = at.child("laurel")
    low = b.project("laurel_left", normed, inner, "linear_left", spec.rank, role="dense")
    high = b.project("laurel_right", low, inner, "linear_right", b.width(normed), role="dense")
    size = b.width(normed)
    high = norm.weighted_rms(
        b, "laurel_norm", high, inner, "post_laurel_norm.weight", eps=spec.eps, size=size
    )
    side = b.op("add", "laurel", {"a": normed, "b": high})["y"]
    mixed = b.op("add", "sum", {"a": active, "b": y})["y"]
    half = math.sqrt(0.5)
    return b.op("add", "residual", {"a": mixed, "b": side}, scale_a=half, scale_b=half)["y"]


ALTUP = Residual(
    stem="altup",
    spec=Altup,
    sees=sees,
    says=says,
    read=read,
    begin=begin,
    enter=enter,
    leave=leave,
    finish=finish,
)
