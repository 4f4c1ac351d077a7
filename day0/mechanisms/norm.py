"""Norms before and after a sublayer: RMS (plain or 1 + w), layer norm, gated RMS (A.X-K2)."""

from dataclasses import dataclass

from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope, Spellings
from day0.mechanisms.spec import Layer, Part

# OLMo-Hybrid's own files store the norm after attention under the name its linear layers use for
# the norm before the feed-forward (transformers 5.24, conversion_mapping).
POST_MIXER = ("post_attention_layernorm", "feedforward_layer_norm")
POST_FFN = ("post_feedforward_layernorm",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """`kind` "rms" or "layer"; `names` the module's spellings; `rank` > 0: the normed value is
    gated by sigmoid(up silu(down y)) of this rank. `weight`, `bias`: whether they are stored."""

    names: tuple[str, ...]
    kind: str = "rms"
    eps: float
    zero_centered: bool = False
    weight: bool = True
    bias: bool = False
    rank: int = 0


def read(layer: Layer, *names: str, kind: str = "rms") -> Part:
    """The norm called one of `names` in this layer; its kind is told by tensors where they are."""
    at, cfg = layer.at, layer.cfg
    with cfg.recording() as because:
        rank = 0
        inner = [f"{name}.norm.weight" for name in names]
        hinted = at.has(*inner) or (not at.names and cfg.says("gated_norm_rank"))
        if hinted and _gated(layer, names):
            rank = cfg.get("norm.gated_rank", "gated_norm_rank")
        biases = [f"{name}.bias" for name in names]
        spec = Norm(
            names=names,
            kind="layer" if at.has(*biases) else kind,
            eps=layer.shape.norm_eps,
            zero_centered=layer.shape.zero_centered,
            bias=at.has(*biases),
            rank=rank,
        )
        because.extend(path for path in ("norm.eps", "norm.zero_centered") if path in cfg.facts)
    return Part(stem="norm", spec=spec, because=tuple(because))


def apply(spec: Norm, b: Builder, ident: str, x: str, at: Scope, *, role: str = "norm") -> str:
    """The normed value."""
    width = b.width(x)
    if spec.rank:
        return _gated_flow(spec, b, ident, x, at)
    weights = {}
    if spec.weight:
        names = tuple(f"{name}.weight" for name in spec.names)
        weights["weight"] = b.weight(ident, at.leaf(names, (width,)), role=role)
    if spec.bias:
        names = tuple(f"{name}.bias" for name in spec.names)
        weights["bias"] = b.weight(f"{ident}.bias", at.leaf(names, (width,)), role=role)
    if spec.kind == "layer":
        return b.op("layernorm", ident, {"x": x}, weights, eps=spec.eps)["y"]
    return rms(b, ident, x, weights.get("weight"), eps=spec.eps, zero_centered=spec.zero_centered)


def rms(
    b: Builder,
    ident: str,
    x: str,
    weight: str | None,
    *,
    eps: float,
    group: int = 0,
    zero_centered: bool = False,
    scale: float = 1.0,
) -> str:
    """RMS norm with a weight that is already there."""
    weights = {} if weight is None else {"weight": weight}
    return b.op(
        "rmsnorm",
        ident,
        {"x": x},
        weights,
        eps=eps,
        group=group,
        zero_centered=zero_centered,
        scale=scale,
    )["y"]


def weighted_rms(
    b: Builder,
    ident: str,
    x: str,
    at: Scope,
    spellings: Spellings,
    *,
    eps: float,
    size: int,
    group: int = 0,
    zero_centered: bool = False,
    scale: float = 1.0,
) -> str:
    """RMS norm whose weight of `size` elements is called one of `spellings`."""
    weight = b.weight(ident, at.leaf(spellings, (size,)), role="norm")
    return rms(b, ident, x, weight, eps=eps, group=group, zero_centered=zero_centered, scale=scale)


def _gated(layer: Layer, names: tuple[str, ...]) -> bool:
    """With headers: the inner norm is stored. Without: A.X-K2 gates the input norm of every
    layer and the second one of sparse layers only (transformers 5.24, modeling_axk2)."""
    if layer.at.names:
        return layer.at.has(*(f"{name}.norm.weight" for name in names))
    return "input_layernorm" in names or layer.ffn_word == "sparse"


def _gated_flow(spec: Norm, b: Builder, ident: str, x: str, at: Scope) -> str:
    inner = at.child(*spec.names)
    width = b.width(x)
    weight = b.weight(ident, inner.leaf("norm.weight", (width,)), role="norm")
    normed = rms(b, ident, x, weight, eps=spec.eps, zero_centered=spec.zero_centered)
    low = b.project(f"{ident}.down", normed, inner, ("W_down", "mlp.fc1"), spec.rank, role="norm")
    low = b.op("activation", f"{ident}.act", {"x": low}, function="silu")["y"]
    gate = b.project(f"{ident}.up", low, inner, ("W_up", "mlp.fc2"), width, role="norm")
    return b.op("gate", f"{ident}.gate", {"x": normed, "gate": gate}, activation="sigmoid")["y"]


def around(layer: Layer, name: str, names: tuple[str, ...]) -> tuple[Part | None, Part | None]:
    """(norm before, norm after) of sublayer `name` ("mixer" or "ffn").

    Pre-norm models call the two norms before mixer and ffn input_layernorm and
    post_attention_layernorm. With pre_ and post_feedforward_layernorm beside them the model is a
    sandwich; with post_feedforward_layernorm alone it norms after each branch (OLMo-2).
    """
    kind = _arrangement(layer)
    if kind == "none":
        return None, None
    if kind == "post":
        return None, read(layer, *(POST_MIXER if name == "mixer" else POST_FFN))
    if kind == "sandwich":
        if name == "mixer":
            return read(layer, "input_layernorm"), read(layer, "post_attention_layernorm")
        return read(layer, "pre_feedforward_layernorm"), read(layer, "post_feedforward_layernorm")
    return read(layer, *names), None


def _arrangement(layer: Layer) -> str:
    """Our tables first: one lost norm must not turn a layer into another kind."""
    cfg, at = layer.cfg, layer.at
    if cfg.get("norm.outside", default=False):
        return "none"  # the residual's own norm takes that part
    path = f"norm.arrangement.{layer.word or 'all'}"
    if at.names and path not in cfg.known:
        after = at.has("post_feedforward_layernorm.weight")
        before = at.has("pre_feedforward_layernorm.weight")
        kind = "sandwich" if before and after else "post" if after else "pre"
        return cfg.note(path, kind, "header", "names of the layer's norms")
    return cfg.get(path, default="pre")
