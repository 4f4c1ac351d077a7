"""Hyper-connections: m residual streams, collapsed before and mixed after each sublayer
(architectures.md [mHC] and 2.11 for the variant without a stream mix)."""

from dataclasses import dataclass

from day0.ir.weight import Dims
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.residual import Residual
from day0.mechanisms.spec import Flow, Layer

# Spellings per sublayer: hub files of DeepSeek-V4 and GLM-5.3, HY-V4, transformers modules.
NAMES = {
    "mixer": ("hc_attn_{}", "hc_pre.hc_attn_layer.hc_{}", "attn_hc.{}"),
    "ffn": ("hc_ffn_{}", "hc_pre.hc_mlp_layer.hc_{}", "ffn_hc.{}"),
    "head": (
        "hc_head_{}",
        "hc_head.hc_{}",
        "hc_pre.hc_head.hc_head_{}",
        "hc_head.hc_pre.hc_head_{}",
    ),
}
WRITE = "hyper_connection"  # the key under which a sublayer's end finds post and mix


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperConnection:
    """`variant` "sinkhorn" (a doubly stochastic stream mix) or "identity" (streams stay, only
    post is added; HY-V4). `eps` is added to pre and inside the Sinkhorn steps, `norm_eps` belongs
    to the weightless norm before fn. `end`: how the streams become one after the last layer,
    "head" (learned weights) or "mean"; "" in a sublayer's own spec."""

    num_streams: int
    variant: str
    eps: float
    norm_eps: float
    iterations: int
    magnitude: float
    end: str = ""


def _spellings(place: str, part: str) -> tuple[str, ...]:
    return tuple(name.format(part) for name in NAMES[place])


def sees(layer: Layer) -> bool:
    return layer.at.has(*_spellings("mixer", "fn"))


def says(layer: Layer) -> bool:
    return layer.cfg.says("hc_mult")


def read(layer: Layer, name: str) -> HyperConnection:
    """`name` "mixer", "ffn" or "stream" (the model's own spec)."""
    cfg = layer.cfg
    streams = cfg.get("hyper.num_streams", "hc_mult", derive=lambda: _streams(layer))
    variant = _variant(layer)
    return HyperConnection(
        num_streams=streams,
        variant=variant,
        eps=float(cfg.get("hyper.eps", "hc_eps", assume=1e-6)),
        norm_eps=layer.shape.norm_eps,
        iterations=cfg.get("hyper.iterations", "hc_sinkhorn_iters", assume=20, decisive=True)
        if variant == "sinkhorn"
        else 0,
        magnitude=float(cfg.get("hyper.magnitude", "hc_magnitude", default=2.0)),
        end=_end(layer) if name == "stream" else "",
    )


def _streams(layer: Layer) -> int | None:
    columns = layer.at.dim(1, *_spellings("mixer", "fn"))
    return None if columns is None else columns // layer.shape.hidden_size


def _variant(layer: Layer) -> str:
    """Three scales (pre, post, mix) or two."""
    scales = layer.at.dim(0, *_spellings("mixer", "scale"))
    if scales is not None:
        variant = "sinkhorn" if scales == 3 else "identity"
        return layer.cfg.note("hyper.variant", variant, "header", "scales of the first sublayer")
    if layer.cfg.says("hc_magnitude"):
        return layer.cfg.note("hyper.variant", "identity", "config", "config.json:hc_magnitude")
    if layer.cfg.says("hc_sinkhorn_iters"):
        return layer.cfg.note(
            "hyper.variant", "sinkhorn", "config", "config.json:hc_sinkhorn_iters"
        )
    return layer.cfg.get("hyper.variant", assume="sinkhorn", decisive=True)


def _end(layer: Layer) -> str:
    """Stored head weights decide; without any, only words tell a mean from other ways."""
    if layer.at.root().has(*_spellings("head", "fn")):
        return layer.cfg.note("hyper.end", "head", "header", "the stored head of the streams")
    assumed = "mean" if layer.at.names else "head"
    return layer.cfg.get("hyper.end", assume=assumed, decisive=True)


def begin(spec: HyperConnection, b: Builder, flow: Flow) -> None:
    """Every stream starts as the embedding."""
    flow.x = b.op("streams", "streams", {"x": flow.x}, num_streams=spec.num_streams, rule="copy")[
        "y"
    ]


def enter(spec: HyperConnection, b: Builder, flow: Flow, at: Scope, name: str) -> str:
    m = spec.num_streams
    rows = (2 + m) * m if spec.variant == "sinkhorn" else 2 * m
    scales = 3 if spec.variant == "sinkhorn" else 2
    weights = _weights(b, at, name, {"fn": (rows, b.width(flow.x)), "base": (rows,),
                                     "scale": (scales,)})  # fmt: skip
    outputs = b.op(
        "hyper_connection", "hyper", {"x": flow.x}, weights,
        num_streams=m, variant=spec.variant, eps=spec.eps, norm_eps=spec.norm_eps,
        iterations=spec.iterations, magnitude=spec.magnitude,
    )  # fmt: skip
    flow.kept[WRITE] = {slot: value for slot, value in outputs.items() if slot != "y"}
    return outputs["y"]


def leave(
    spec: HyperConnection, b: Builder, flow: Flow, y: str, normed: str, at: Scope, name: str
) -> None:
    inputs = {"x": flow.x, "update": y, **flow.kept.pop(WRITE)}
    flow.x = b.op("hyper_write", "residual", inputs, num_streams=spec.num_streams)["y"]


def finish(spec: HyperConnection, b: Builder, flow: Flow, at: Scope) -> str:
    m = spec.num_streams
    if spec.end == "mean":
        return b.op("streams", "streams_end", {"x": flow.x}, num_streams=m, rule="mean")["y"]
    shapes = {"fn": (m, b.width(flow.x)), "base": (m,), "scale": (1,)}
    return b.op(
        "hyper_connection", "streams_end", {"x": flow.x}, _weights(b, at, "head", shapes),
        num_streams=m, variant="head", eps=spec.eps, norm_eps=spec.norm_eps,
    )["y"]  # fmt: skip


def _weights(b: Builder, at: Scope, place: str, shapes: dict[str, Dims]) -> dict[str, str]:
    return {
        part: b.weight(
            f"hyper_{'head_' if place == 'head' else ''}{part}",
            at.leaf(_spellings(place, part), dims),
            role="residual",
        )
        for part, dims in shapes.items()
    }


HYPER_CONNECTION = Residual(
    stem="hyper_connection",
    spec=HyperConnection,
    sees=sees,
    says=says,
    read=read,
    begin=begin,
    enter=enter,
    leave=leave,
    finish=finish,
)
