"""Grouped-query softmax attention: full, sliding, gated, with sinks (architectures.md 1a-1c)."""

from dataclasses import dataclass

from day0.ir.tensor import TensorSpec
from day0.ir.weight import Pick
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.norm import weighted_rms
from day0.mechanisms.rope import Rope, rotate, table
from day0.mechanisms.spec import Flow, Layer, Mechanism

MODULES = ("self_attn", "attention", "attn")
OUT = ("o_proj", "out_proj", "wo", "dense")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gqa:
    """`qk_norm` "none", "head" (one weight of head_dim), "full" (over all heads' channels).
    `out_gate` "none" or "fused" (q_proj holds [q | gate] rows per head). `window` > 0: sliding.
    `rope` None: no position enters. `zero_centered` is that of the q and k norms."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_dim: int
    scale: float
    rope: Rope | None
    window: int = 0
    softcap: float | None = None
    sink: bool = False
    qk_norm: str = "none"
    norm_eps: float
    zero_centered: bool = False
    out_gate: str = "none"
    qkv_bias: bool = False
    out_bias: bool = False


def sees(layer: Layer) -> bool:
    at = layer.at.child(*MODULES)
    return at.has("q_proj.weight") and at.has("k_proj.weight")


def says(layer: Layer) -> bool:
    return layer.word != "linear" and layer.cfg.says(
        "num_attention_heads", "num_key_value_heads", "n_head", "num_heads"
    )


def read(layer: Layer) -> Gqa:
    cfg, at, shape = layer.cfg, layer.at.child(*MODULES), layer.shape
    heads = cfg.get("gqa.num_heads", "num_attention_heads", "n_head", "num_heads")
    kv_heads = cfg.get("gqa.num_kv_heads", "num_key_value_heads", default=heads)
    keys = () if cfg.word("head_dim") == 0 else ("head_dim",)  # 0 stands for an absent key
    head_dim = cfg.get(
        "gqa.head_dim", *keys, derive=lambda: _per_head(at, kv_heads),
        default=shape.hidden_size // heads,
    )  # fmt: skip
    return Gqa(
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        value_dim=cfg.get("gqa.value_dim", "v_head_dim", default=head_dim),
        scale=_scale(layer, head_dim),
        rope=_rope(layer, head_dim),
        window=_window(layer),
        softcap=cfg.get("gqa.softcap", "attn_logit_softcapping", default=None),
        sink=at.has("sinks") or bool(cfg.get("gqa.sink", default=False)),
        qk_norm=_qk_norm(layer, at, head_dim),
        norm_eps=shape.norm_eps,
        zero_centered=shape.zero_centered,
        out_gate=_out_gate(layer, at, heads * head_dim),
        qkv_bias=bool(cfg.get("gqa.qkv_bias", "attention_bias", "qkv_bias", default=False)),
        out_bias=_out_bias(layer, at),
    )


def _per_head(at: Scope, kv_heads: int) -> int | None:
    rows = at.dim(0, "k_proj.weight")
    return None if rows is None else rows // kv_heads


def _scale(layer: Layer, head_dim: int) -> float:
    """head_dim^-1/2 unless the config gives its own."""
    own = layer.cfg.word("query_pre_attn_scalar")
    if own:
        return layer.cfg.note("gqa.scale", own**-0.5, "config", "query_pre_attn_scalar")
    return layer.cfg.get("gqa.scale", "attention_multiplier", default=max(head_dim, 1) ** -0.5)


def _window(layer: Layer) -> int:
    if layer.word not in ("sliding", "chunked"):
        return 0
    return layer.cfg.get(
        "gqa.window", "sliding_window", "sliding_window_size", "attention_chunk_size"
    )


def _rope(layer: Layer, head_dim: int) -> Rope | None:
    cfg = layer.cfg
    label = {"sliding": "sliding_attention"}.get(layer.word, "full_attention")
    cfg.word("initial_context_length")  # gpt-oss: restates original_max_position_embeddings
    if _listed_no_rope(layer):
        return None
    if cfg.get(f"gqa.no_rope.{label}", assume=False):
        return None
    found = table(cfg, label)
    if found is None:
        return _without_words(layer, label)
    return Rope(
        dims=_rope_dims(layer, head_dim, found.partial),
        theta=found.theta,
        scaling=found.scaling,
        args=found.args,
        pairing=cfg.get("gqa.rope_pairing", assume="half"),
    )


def _without_words(layer: Layer, label: str) -> None:
    """No rotary words: no rotary embedding, which only some types are known to mean by it."""
    cfg = layer.cfg
    path = f"gqa.no_rope_without_words.{label}"
    if "gqa.no_rope_without_words" in cfg.known or cfg.says("rope_parameters", "rope_scaling"):
        cfg.note(path, True, "config", "no rotary words", decisive=True)
    else:
        cfg.get(path, assume=True, decisive=True)


def _rope_dims(layer: Layer, head_dim: int, partial: float | None) -> int:
    cfg = layer.cfg
    rotary = cfg.word("rotary_dim")
    if partial is not None:
        cfg.note("gqa.partial", partial, "config", "partial rotary factor", decisive=True)
        return int(head_dim * partial)
    if rotary:
        return cfg.note("gqa.rope_dims", int(rotary), "config", "config.json:rotary_dim")
    return int(head_dim * cfg.get("gqa.partial", default=1.0, decisive=True))


def _listed_no_rope(layer: Layer) -> bool:
    cfg = layer.cfg
    listed = cfg.word("no_rope_layers")
    interval = cfg.word("no_rope_layer_interval")
    if listed is not None and layer.index < len(listed):
        return not listed[layer.index]
    return bool(interval) and (layer.index + 1) % interval == 0


def _qk_norm(layer: Layer, at: Scope, head_dim: int) -> str:
    """The stored weight's size tells the kind. Where it is not stored but the config or our
    tables promise it, it is expected, so that the proof names the missing tensor."""
    cfg = layer.cfg
    word = cfg.word("use_qk_norm")
    cfg.word("qk_norm_type")  # MiniMax-M3: per_head, as the weight's size tells
    rows = at.dim(0, "q_norm.weight")
    if rows is not None:
        kind = "head" if rows == head_dim else "full"
        return cfg.note("gqa.qk_norm", kind, "header", "rows of q_norm")
    if word is not None:
        kind = "head" if word else "none"
        return cfg.note("gqa.qk_norm", kind, "config", "config.json:use_qk_norm")
    return cfg.get("gqa.qk_norm", default="none")


def _out_gate(layer: Layer, at: Scope, width: int) -> str:
    cfg = layer.cfg
    word = cfg.word("attn_output_gate", "attention_output_gate")
    rows = at.dim(0, "q_proj.weight")
    if rows is not None and rows in (width, 2 * width):
        kind = "none" if rows == width else "fused"
        return cfg.note("gqa.out_gate", kind, "header", "rows of q_proj")
    if word is not None:
        kind = "fused" if word else "none"
        return cfg.note("gqa.out_gate", kind, "config", "config.json:attn_output_gate")
    return cfg.get("gqa.out_gate", default="none")


def _out_bias(layer: Layer, at: Scope) -> bool:
    """attention_bias means q, k and v in some types (GLM-4.5) and the output too in others."""
    cfg = layer.cfg
    if at.names and at.has(*(f"{name}.weight" for name in OUT)):
        stored = at.has(*(f"{name}.bias" for name in OUT))
        return cfg.note("gqa.out_bias", stored, "header", "bias of the output projection")
    if "gqa.out_bias" in cfg.known:
        return bool(cfg.get("gqa.out_bias"))
    return bool(cfg.get("gqa.out_bias", "attention_bias", default=False))


def flow(spec: Gqa, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    at = at.child(*MODULES)
    q, gate = queries(spec, b, x, at)
    kv = keys_and_values(spec, b, x, at)
    y = b.op(
        "gqa",
        "attend",
        {"q": q},
        sinks(spec, b, at),
        {"kv": (kv, "r")},
        num_heads=spec.num_heads,
        num_kv_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        value_dim=spec.value_dim,
        scale=spec.scale,
        window=spec.window,
        softcap=spec.softcap,
    )["y"]
    return output(spec, b, y, gate, at, b.width(x))


def sinks(spec: Gqa, b: Builder, at: Scope) -> dict[str, str]:
    """The weight of the sinks, one logit a head, where there are any."""
    if not spec.sink:
        return {}
    return {"sink": b.weight("sink", at.leaf("sinks", (spec.num_heads,)), role="state")}


def queries(spec: Gqa, b: Builder, x: str, at: Scope) -> tuple[str, str | None]:
    """(q normed and rotated, the fused output gate or None)."""
    nh, dh = spec.num_heads, spec.head_dim
    gate = None
    if spec.out_gate == "fused":
        leaf = at.leaf("q_proj.weight", (2 * nh * dh, b.width(x)))
        rows = [Pick(of=leaf, dim=0, period=2 * dh, start=s, stop=s + dh) for s in (0, dh)]
        biases = [None, None]
        if spec.qkv_bias or at.has("q_proj.bias"):
            bias = at.leaf("q_proj.bias", (2 * nh * dh,))
            biases = [Pick(of=bias, dim=0, period=2 * dh, start=s, stop=s + dh) for s in (0, dh)]
        q = b.linear("q_proj", x, rows[0], role="attention_proj", bias=biases[0])
        gate = b.linear("gate_proj", x, rows[1], role="attention_proj", bias=biases[1])
    else:
        q = b.project("q_proj", x, at, "q_proj", nh * dh, role="attention_proj", bias=spec.qkv_bias)
    q = _norm(spec, b, "q_norm", q, at, nh)
    if spec.rope is not None:
        q = rotate(b, "q_rope", q, spec.rope, heads=nh)
    return q, gate


def keys_and_values(spec: Gqa, b: Builder, x: str, at: Scope) -> str:
    """The cache of keys and values, written with this step's."""
    nkv, dh, dv = spec.num_kv_heads, spec.head_dim, spec.value_dim
    k = b.project("k_proj", x, at, "k_proj", nkv * dh, role="attention_proj", bias=spec.qkv_bias)
    v = b.project("v_proj", x, at, "v_proj", nkv * dv, role="attention_proj", bias=spec.qkv_bias)
    k = _norm(spec, b, "k_norm", k, at, nkv)
    if spec.rope is not None:
        k = rotate(b, "k_rope", k, spec.rope, heads=nkv)
    cache = b.cache(
        "kv",
        growth="window" if spec.window else "per-token",
        span=spec.window,
        role="kv",
        parts=(
            ("key", TensorSpec(dims=(nkv, dh), format=b.plain)),
            ("value", TensorSpec(dims=(nkv, dv), format=b.plain)),
        ),
    )
    b.op("cache_write", "kv_write", {"part0": k, "part1": v}, {}, {"cache": (cache, "w")})
    return cache


def output(spec: Gqa, b: Builder, y: str, gate: str | None, at: Scope, width: int) -> str:
    """Gate, then the output projection."""
    if gate is not None:
        y = b.op("gate", "out_gate", {"x": y, "gate": gate}, activation="sigmoid")["y"]
    return b.project("o_proj", y, at, OUT, width, role="attention_proj", bias=spec.out_bias)


def _norm(spec: Gqa, b: Builder, ident: str, x: str, at: Scope, heads: int) -> str:
    if spec.qk_norm == "none":
        return x
    size = spec.head_dim if spec.qk_norm == "head" else heads * spec.head_dim
    return weighted_rms(
        b, ident, x, at, f"{ident}.weight", eps=spec.norm_eps, size=size,
        group=spec.head_dim if spec.qk_norm == "head" else 0, zero_centered=spec.zero_centered,
    )  # fmt: skip


GQA = Mechanism(stem="gqa", spec=Gqa, sees=sees, says=says, read=read, flow=flow)
