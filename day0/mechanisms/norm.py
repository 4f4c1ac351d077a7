"""Norms before and after a sublayer: RMS (plain or 1 + w), layer norm, gated RMS (A.X-K2)."""

from dataclasses import dataclass

from day0.mechanisms.builder import Builder
from day0.mechanisms.config import ConfigReader
from day0.mechanisms.names import Scope, Spellings
from day0.mechanisms.spec import Layer, Part

# OLMo-Hybrid's own files store the norm after attention under the name its linear layers use for
# the norm before the feed-forward (transformers 5.24, conversion_mapping).
POST_MIXER = ("post_attention_layernorm", "feedforward_layer_norm")
# Norms before the mixer (or before both branches of a parallel block), and before the feed-forward.
FIRST = ("input_layernorm", "attention_norm", "attn_norm", "attention_layer_norm", "ln_1", "norm",
         "ln_attn", "self_attn_layer_norm", "attention_layernorm", "norm_1", "operator_norm",
         "pre_norm", "norm_attn_norm.norm_1")  # fmt: skip
SECOND = ("post_attention_layernorm", "ffn_norm", "mlp_norm", "feedforward_layer_norm", "ln_2",
          "ln_mlp", "final_layer_norm", "feedforward_layernorm", "norm_2",
          "pre_ff_layernorm", "pre_feedforward_layernorm", "pre_mlp_layernorm",
          "norm_attn_norm.norm_2")  # fmt: skip
POST_FFN = ("post_feedforward_layernorm", "post_mlp_layernorm", "post_norm2", "post_ffn_norm")
# Names that leave no doubt where a norm stands; `post_attention_layernorm` is found before the
# feed-forward of most models and after the mixer of sandwiches.
AFTER_MIXER = ("post_self_attn_layernorm", "post_norm1", "post_attn_norm")
BEFORE_FFN = ("pre_feedforward_layernorm", "pre_mlp_layernorm")


_FACTS = ("norm.eps", "norm.zero_centered", "norm.kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """`kind` "rms" or "layer"; `names` the module's spellings; `rank` > 0: the normed value is
    gated by sigmoid(up silu(down y)) of this rank. `weight`, `bias`: whether they are stored.
    `scale`: a constant factor on the normed value."""

    names: tuple[str, ...]
    kind: str = "rms"
    eps: float
    zero_centered: bool = False
    weight: bool = True
    bias: bool = False
    rank: int = 0
    scale: float = 1.0


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
        eps = layer.shape.norm_eps
        if "post_feedforward_layernorm" in names or "post_self_attn_layernorm" in names:
            eps = cfg.get("norm.post_eps", "post_norm_eps", default=eps)
        spec = Norm(
            names=names,
            kind="layer"
            if stored_bias(cfg, at, biases)
            else layer.shape.norm_kind
            if kind == "rms"
            else kind,
            eps=float(eps),
            zero_centered=layer.shape.zero_centered,
            weight=not layer.shape.norm_bare,
            bias=stored_bias(cfg, at, biases),
            rank=rank,
        )
        because.extend(path for path in _FACTS if path in cfg.facts)
    return Part(stem="norm", spec=spec, because=tuple(because))


def stored_bias(cfg: ConfigReader, at: Scope, biases: list[str]) -> bool:
    """Whether a norm has a bias: by its tensor, without headers by our tables."""
    return at.has(*biases) if at.names else bool(cfg.get("norm.bias", default=False))


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
        return b.op(
            "layernorm", ident, {"x": x}, weights, eps=spec.eps, zero_centered=spec.zero_centered
        )["y"]
    return rms(
        b, ident, x, weights.get("weight"), eps=spec.eps, zero_centered=spec.zero_centered,
        scale=spec.scale,
    )  # fmt: skip


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
    post_attention_layernorm. With a norm before the feed-forward of its own name beside them the
    model is a sandwich; with post_feedforward_layernorm alone it norms after each branch (OLMo-2),
    with both names of a pre-norm model after the feed-forward alone ("outer", A.X-K1).
    """
    kind = arrangement(layer)
    first_free = layer.index == 0 and name == "mixer" and "norm.first_bare" in layer.cfg.known
    if kind == "none" or first_free:
        return None, None
    if kind == "post":
        return None, read(layer, *(POST_MIXER if name == "mixer" else POST_FFN))
    if kind == "outer" and name == "ffn":
        return read(layer, *names), read(layer, *POST_FFN)
    if kind == "sandwich":
        if name == "mixer":
            return read(layer, *names), read(layer, *AFTER_MIXER, "post_attention_layernorm")
        return read(layer, *BEFORE_FFN, *names), read(layer, *POST_FFN)
    return read(layer, *names), None


def arrangement(layer: Layer) -> str:
    """Where the layer's norms stand: "pre", "post", "sandwich", "outer", "parallel" (one norm, or
    one a branch, and both branches read the same stream), "none". Our tables first: one lost norm
    must not turn a layer into another kind."""
    cfg, at = layer.cfg, layer.at
    if cfg.get("norm.outside", default=False):
        return "none"  # the residual's own norm takes that part
    path = f"norm.arrangement.{layer.word or 'all'}"
    if layer.ffn_word == "sparse" and "norm.arrangement.sparse" in cfg.known:
        return cfg.get("norm.arrangement.sparse")
    word = cfg.word("use_parallel_residual", "parallel_attn")
    if word is not None and path not in cfg.known:
        kind = "parallel" if word or cfg.word("new_decoder_architecture") else "pre"
        return cfg.note(path, kind, "config", "parallel residual")
    if path not in cfg.known and "norm.arrangement" in cfg.known:
        return cfg.note(path, cfg.known["norm.arrangement"][0], "known",
                        cfg.known["norm.arrangement"][1])  # fmt: skip
    if at.names and path not in cfg.known:
        return cfg.note(path, _seen_arrangement(layer), "header", "names of the layer's norms")
    return cfg.get(path, default="pre")


def _seen_arrangement(layer: Layer) -> str:
    at = layer.at
    after = at.has(*_weights(POST_FFN))
    before = at.has(*_weights(BEFORE_FFN)) or at.has(*_weights(AFTER_MIXER))
    if after and (before or _anywhere(layer, BEFORE_FFN)):
        return "sandwich" if before else "post"
    if after:
        return "outer" if at.has(*_weights(FIRST)) else "post"
    if at.has(*_weights(FIRST)) and not _anywhere(layer, (*SECOND, *BEFORE_FFN)):
        return "parallel"
    return "pre"


def _weights(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name}{part}" for name in names for part in (".weight", ".norm.weight"))


def _anywhere(layer: Layer, names: tuple[str, ...]) -> bool:
    """Whether one of the norms stands in this layer or in another one."""
    wanted = _weights(names)
    return layer.at.has(*wanted) or any(other.has(*wanted) for other in layer.at.other_layers())
