"""Gated hyper-connections: normed streams mixed by a low-rank sigmoid gate, outputs injected with
one weight per stream; n-gram features join the streams before a layer (architectures.md 2.2)."""

from dataclasses import dataclass

from day0.mechanisms import ngram as ngrams
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.residual import Residual
from day0.mechanisms.spec import Flow, Layer

MODULES = {
    "mixer": "attn_hyper_connection",
    "ffn": "mlp_hyper_connection",
    "end": "hyper_connection_mixer",
}
WRITE = "hyper_gate"  # the key under which a sublayer's end finds the stream weights


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperGate:
    """`rank` channels between the gate's two matrices. `ngram`: features added to the streams
    before this sublayer, or None."""

    num_streams: int
    rank: int
    eps: float
    zero_centered: bool
    ngram: ngrams.Ngram | None = None


def sees(layer: Layer) -> bool:
    return layer.at.has(f"{MODULES['mixer']}.input_mix_weight_down.weight")


def says(layer: Layer) -> bool:
    return layer.cfg.says("hc_count", "hc_lowrank")


def read(layer: Layer, name: str) -> HyperGate:
    """`name` "mixer", "ffn" or "stream" (the model's own spec)."""
    cfg, at = layer.cfg, layer.at.child(MODULES["mixer"])
    streams = cfg.get(
        "hyper.num_streams", "hc_count", derive=lambda: at.dim(0, "block_inject_weight.weight")
    )
    return HyperGate(
        num_streams=streams,
        rank=cfg.get(
            "hyper.rank", "hc_lowrank", derive=lambda: at.dim(0, "input_mix_weight_down.weight")
        ),
        eps=layer.shape.norm_eps,
        zero_centered=layer.shape.zero_centered,
        ngram=ngrams.read(layer, streams) if name == "mixer" and ngrams.owned(layer) else None,
    )


def begin(spec: HyperGate, b: Builder, flow: Flow) -> None:
    """Every stream starts as the embedding."""
    flow.x = b.op("streams", "streams", {"x": flow.x}, num_streams=spec.num_streams, rule="copy")[
        "y"
    ]


def enter(spec: HyperGate, b: Builder, flow: Flow, at: Scope, name: str) -> str:
    if spec.ngram is not None:
        with b.at("ngram"):
            features = ngrams.flow(spec.ngram, b, flow.x, at.child("ple"), flow)
            flow.x = b.op("add", "add", {"a": flow.x, "b": features})["y"]
    outputs = _gate(spec, b, flow.x, "hyper", at.child(MODULES[name]), inject=True)
    flow.kept[WRITE] = outputs["post"]
    return outputs["y"]


def leave(
    spec: HyperGate, b: Builder, flow: Flow, y: str, normed: str, at: Scope, name: str
) -> None:
    inputs = {"x": flow.x, "update": y, "post": flow.kept.pop(WRITE)}
    flow.x = b.op("hyper_write", "residual", inputs, num_streams=spec.num_streams)["y"]


def finish(spec: HyperGate, b: Builder, flow: Flow, at: Scope) -> str:
    return _gate(spec, b, flow.x, "streams_end", at.child(MODULES["end"]), inject=False)["y"]


def _gate(
    spec: HyperGate, b: Builder, x: str, ident: str, at: Scope, *, inject: bool
) -> dict[str, str]:
    width, rank = b.width(x), spec.rank
    shapes = {
        "norm": ("hc_norm.weight", (width,)),
        "down": ("input_mix_weight_down.weight", (rank, width)),
        "up": ("input_mix_weight_up.weight", (width, rank)),
    }
    if inject:
        shapes["inject"] = ("block_inject_weight.weight", (spec.num_streams, width))
    weights = {
        slot: b.weight(
            f"{ident}.{slot}", at.leaf(tensor, dims), role="norm" if slot == "norm" else "residual"
        )
        for slot, (tensor, dims) in shapes.items()
    }
    return b.op(
        "hyper_gate",
        ident,
        {"x": x},
        weights,
        num_streams=spec.num_streams,
        eps=spec.eps,
        zero_centered=spec.zero_centered,
    )


HYPER_GATE = Residual(
    stem="hyper_gate",
    spec=HyperGate,
    sees=sees,
    says=says,
    read=read,
    begin=begin,
    enter=enter,
    leave=leave,
    finish=finish,
)
