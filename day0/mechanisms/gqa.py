"""Grouped-query softmax attention: full, sliding, gated, with sinks (architectures.md 1a-1c)."""

from collections.abc import Callable
from dataclasses import dataclass

from day0.ir.tensor import TensorSpec
from day0.ir.weight import Expr, Pick
from day0.mechanisms import _gqa_read as reading
from day0.mechanisms import _gqa_weights as weights
from day0.mechanisms import norm
from day0.mechanisms._gqa_read import GATE, K_NORM, OUT, Q_NORM, SINKS
from day0.mechanisms._gqa_weights import FUSED, K, Q, named
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.rope import Rope, rotate
from day0.mechanisms.spec import Flow, Layer, Mechanism

MODULES = (
    "self_attn",
    "norm_attn_norm.attn",
    "attn.attention",
    "attention",
    "attn",
    "self_attention",
)
GATE_BIAS = "gate_bias"  # one for each head (Beam)
HEADS = ("num_attention_heads_per_layer", "num_attention_heads", "n_head", "num_heads", "n_heads")
KV_HEADS = ("attn_config.kv_n_heads", "num_key_value_heads", "num_kv_heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gqa:
    """`fused`: how q, k and v stand in one tensor (`_gqa_weights`), "" apart. `qk_norm` "none",
    "head" (one weight of head_dim), "heads" (a weight for each head), "full" (over all heads'
    channels), "bare" (of each head, without a weight); `qk_norm_kind` "rms" or "layer" (with a
    bias if `qk_norm_bias`);
    `norm_last`: after the rotary embedding. `out_gate` "none", "fused" (q_proj holds [q | gate]
    rows per head), "element" or "head" (a matrix of its own) with `gate_function`. `window` > 0:
    sliding, `chunked`: since the last multiple of it. `rope` None: no rotary embedding. `alibi` >
    0: a bias by distance. `temperature` (rule, beta, original, shift): queries grow with their
    position (`position_scale`). `clip`: bound on q, k and v. `value_norm`: values are normed too,
    without a weight; `keys_are_values`: one matrix serves both (Gemma 4). `kv_of`: the layer whose
    keys and values are read (this one: -1). `zero_centered` is that of the q and k norms."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_dim: int
    scale: float
    rope: Rope | None
    window: int = 0
    chunked: bool = False
    softcap: float | None = None
    sink: bool = False
    fused: str = ""
    qk_norm: str = "none"
    qk_norm_kind: str = "rms"
    qk_norm_bias: bool = False
    norm_last: bool = False
    norm_eps: float
    zero_centered: bool = False
    out_gate: str = "none"
    gate_function: str = "sigmoid"
    gate_bias: bool = False
    inner_norm: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    alibi: float = 0.0
    temperature: tuple[str, float, int, int] | None = None
    clip: float | None = None
    value_scale: float = 1.0
    value_norm: bool = False
    keys_are_values: bool = False
    kv_of: int = -1


def sees(layer: Layer) -> bool:
    at = layer.at.child(*MODULES)
    if at.has(*named(Q)) and layer.index >= reading.first_sharing(layer):
        return True
    return at.has(*named(FUSED)) or (at.has(*named(Q)) and at.has(*named(K)))


def says(layer: Layer) -> bool:
    return layer.word != "linear" and layer.cfg.says(*HEADS, *KV_HEADS)


def read(layer: Layer) -> Gqa:
    cfg, at, shape = layer.cfg, layer.at.child(*MODULES), layer.shape
    own = _of_window(layer)
    cfg.word("num_attention_heads")
    heads = cfg.get("gqa.num_heads", *own("num_attention_heads"), *HEADS)
    kv_heads = _kv_heads(layer, at, heads)
    keys = () if cfg.word("head_dim") == 0 else ("head_dim",)  # 0 stands for an absent key
    keys = (*own("head_dim"), *keys, "kv_channels")
    head_dim = cfg.get(
        "gqa.head_dim", *keys, derive=lambda: _per_head(at, heads, kv_heads),
        default=shape.hidden_size // heads,
    )  # fmt: skip
    value_dim = cfg.get("gqa.value_dim", *own("v_head_dim"), "v_head_dim", default=head_dim)
    rope = reading.rope(layer, head_dim)
    return Gqa(
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        value_dim=value_dim,
        scale=reading.scale(layer, head_dim) * (cfg.word("qk_scale_factor") or 1.0),
        rope=rope,
        window=reading.window(layer),
        chunked=layer.word == "chunked",
        softcap=cfg.get("gqa.softcap", "attn_logit_softcapping", default=None),
        sink=at.has(*SINKS) if at.names else _promised_sink(layer),
        fused=weights.fused(layer, at, kv_heads),
        qk_norm=_unless_bare(layer, reading.qk_norm(layer, at, head_dim), rope),
        qk_norm_kind=_norm_kind(layer, at),
        qk_norm_bias=norm.stored_bias(cfg, at, list(named(Q_NORM, "bias"))),
        norm_last=bool(cfg.get("gqa.norm_last", default=False)),
        norm_eps=_norm_eps(layer),
        zero_centered=bool(cfg.get("gqa.norm_zero_centered", default=shape.zero_centered)),
        out_gate=reading.out_gate(layer, at, heads, value_dim),
        gate_function=cfg.get("gqa.gate_function", default="sigmoid"),
        gate_bias=at.has(GATE_BIAS)
        or (not at.names and bool(cfg.get("gqa.gate_bias", default=False))),
        inner_norm=at.has("attn_sub_norm.weight")
        or (not at.names and bool(cfg.get("gqa.inner_norm", default=False))),
        qkv_bias=bool(
            cfg.get("gqa.qkv_bias", "attention_bias", "qkv_bias", "use_qkv_bias", "use_bias",
                    "bias", default=False)
        ),
        out_bias=reading.out_bias(layer, at),
        alibi=reading.alibi(layer),
        temperature=_temperature(layer, rope),
        clip=cfg.get("gqa.clip", "clip_qkv", "attn_config.clip_qkv", default=None),
        value_norm=bool(cfg.get("gqa.value_norm", default=False)),
        keys_are_values=reading.keys_are_values(layer, at),
        kv_of=reading.kv_owner(layer),
        value_scale=float(cfg.get("gqa.value_scale", "attention_value_scale", default=1.0)),
    )  # fmt: skip


def _of_window(layer: Layer) -> Callable[[str], tuple[str, ...]]:
    """Keys that layers with a window have of their own (MiMo-V2, Inkling), or those without one
    (Gemma 4)."""
    if layer.word == "sliding":
        return lambda key: (f"swa_{key}",)
    if layer.cfg.word("attention_k_eq_v") is False:  # the count of key heads belongs to it
        return lambda key: ("global_head_dim",) if key == "head_dim" else ()
    found = {"head_dim": "global_head_dim", "num_key_value_heads": "num_global_key_value_heads"}
    return lambda key: (found[key],) if key in found else ()


def _kv_heads(layer: Layer, at: Scope, heads: int) -> int:
    """As the config says; layers with a window may have more than it knows of (MiMo-V2)."""
    cfg = layer.cfg
    rows, dim = at.dim(0, *named(K)), cfg.word("head_dim")
    if layer.word == "sliding" and rows and dim and not cfg.says("swa_num_key_value_heads"):
        stated = cfg.word(*KV_HEADS)
        count = rows // dim
        if stated and count != stated and rows == count * dim and heads % count == 0:
            return cfg.note("gqa.num_kv_heads", count, "header", "rows of k_proj")
    cfg.word("multi_query")
    if cfg.word("multi_query") and not cfg.word("new_decoder_architecture"):
        cfg.word(*KV_HEADS)
        return cfg.note("gqa.num_kv_heads", 1, "config", "config.json:multi_query")
    twice = "gqa.kv_twice.sliding" in cfg.known and not cfg.says("swa_num_key_value_heads")
    if layer.word == "sliding" and twice and not at.names:
        return cfg.note("gqa.num_kv_heads", 2 * (cfg.word(*KV_HEADS) or heads), "known",
                        cfg.known["gqa.kv_twice.sliding"][1])  # fmt: skip
    own = _of_window(layer)("num_key_value_heads")
    return cfg.get("gqa.num_kv_heads", *own, *KV_HEADS, default=heads)


def _per_head(at: Scope, heads: int, kv_heads: int) -> int | None:
    rows = at.dim(0, *named(K))
    if rows is not None:
        return rows // kv_heads
    rows = at.dim(0, *named(FUSED))
    return None if rows is None else rows // (heads + 2 * kv_heads)


def _promised_sink(layer: Layer) -> bool:
    """Without headers: by our tables, for all layers or for those with a window."""
    cfg = layer.cfg
    if layer.word == "sliding":
        whole = cfg.known.get("gqa.sink", (False, ""))[0]
        return bool(cfg.get("gqa.sink.sliding", "add_swa_attention_sink_bias", default=whole))
    return bool(cfg.get("gqa.sink", "add_full_attention_sink_bias", default=False))


def _unless_bare(layer: Layer, kind: str, rope: Rope | None) -> str:
    """Llama 4 norms only what it rotates."""
    needs = layer.cfg.get("gqa.norm_needs_rope", default=False)
    return "none" if needs and rope is None else kind


def _norm_eps(layer: Layer) -> float:
    eps = layer.cfg.get("gqa.norm_eps", default="norm.eps")
    return layer.shape.norm_eps if eps == "norm.eps" else float(eps)


def _norm_kind(layer: Layer, at: Scope) -> str:
    biases = list(named(Q_NORM, "bias"))
    return "layer" if norm.stored_bias(layer.cfg, at, biases) else layer.shape.norm_kind


def _temperature(layer: Layer, rope: Rope | None) -> tuple[str, float, int, int] | None:
    """Llama 4 scales the queries of layers without rotary embedding by their position, Ministral
    3 those of all layers; both in steps of a trained length."""
    cfg = layer.cfg
    words = cfg.word("rope_parameters")
    beta = words.get("llama_4_scaling_beta") if words is not None else None
    if beta is not None and words is not None:
        return "floor_log", float(beta), int(words["original_max_position_embeddings"]), 0
    switch, length = cfg.word("attn_temperature_tuning"), cfg.word("floor_scale")
    factor = cfg.word("attn_scale")
    if rope is not None:
        return None
    if "gqa.length_scale" in cfg.known:
        power, original = cfg.get("gqa.length_scale")
        return "power", float(power), int(original), 0
    return ("floor_log", float(factor or 0.1), int(length or 8192), 1) if switch else None


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
        chunked=spec.chunked,
        softcap=spec.softcap,
        alibi=spec.alibi,
    )["y"]
    return output(spec, b, y, gate, at, b.width(x))


def sinks(spec: Gqa, b: Builder, at: Scope) -> dict[str, str]:
    """The weight of the sinks, one logit a head, where there are any."""
    if not spec.sink:
        return {}
    return {"sink": b.weight("sink", at.leaf(SINKS, (spec.num_heads,)), role="state")}


def queries(spec: Gqa, b: Builder, x: str, at: Scope) -> tuple[str, str | None]:
    """(q normed and rotated, the output gate's logits or None)."""
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
        q = weights.project(b, x, at, "q", nh * dh, bias=spec.qkv_bias, cut=_cut(spec, b, x, at))
        if spec.out_gate != "none":
            out = nh if spec.out_gate == "head" else nh * spec.value_dim
            gate = b.project("gate_proj", x, at, GATE, out, role="attention_proj")
    q = _clipped(spec, b, "q_clip", q)
    q = _turned(spec, b, "q", q, at, nh)
    if spec.temperature is not None:
        rule, beta, original, shift = spec.temperature
        q = b.op("position_scale", "q_scale", {"x": q}, rule=rule, num_heads=nh, beta=beta,
                 original=original, shift=shift)["y"]  # fmt: skip
    return q, gate


def keys_and_values(spec: Gqa, b: Builder, x: str, at: Scope) -> str:
    """The cache of keys and values, written with this step's; or an earlier layer's."""
    if spec.kv_of >= 0:
        return reading.owned(b, spec.kv_of)
    nkv, dh, dv = spec.num_kv_heads, spec.head_dim, spec.value_dim
    cut = _cut(spec, b, x, at)
    k = weights.project(b, x, at, "k", nkv * dh, bias=spec.qkv_bias, cut=cut)
    v = k
    if not spec.keys_are_values:
        v = weights.project(b, x, at, "v", nkv * dv, bias=spec.qkv_bias, cut=cut)
    k, v = _clipped(spec, b, "k_clip", k), _clipped(spec, b, "v_clip", v)
    k = _turned(spec, b, "k", k, at, nkv)
    if spec.value_norm:
        v = norm.rms(b, "v_norm", v, None, eps=spec.norm_eps, group=dv)
    if spec.value_scale != 1.0:
        v = b.op("softcap", "v_scale", {"x": v}, scale=spec.value_scale)["y"]
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
        heads = spec.num_heads if spec.out_gate == "head" else 0
        bias = {}
        if spec.gate_bias:
            leaf = at.leaf(GATE_BIAS, (spec.num_heads,))
            bias["bias"] = b.weight("gate_bias", leaf, role="attention_proj")
        y = b.op("gate", "out_gate", {"x": y, "gate": gate}, bias, activation=spec.gate_function,
                 num_heads=heads)["y"]  # fmt: skip
    if spec.inner_norm:
        y = norm.weighted_rms(
            b, "inner_norm", y, at, "attn_sub_norm.weight", eps=spec.norm_eps, size=b.width(y)
        )
    if at.has("dense_bias"):  # GPT-NeoX-Japanese, in its last layer
        bias = at.leaf("dense_bias", (width,))
        source = at.leaf("dense.weight", (width, b.width(y)))
        return b.linear("o_proj", y, source, role="attention_proj", bias=bias)
    return b.project("o_proj", y, at, OUT, width, role="attention_proj", bias=spec.out_bias)


def _cut(spec: Gqa, b: Builder, x: str, at: Scope) -> dict[str, tuple[Expr, Expr | None]]:
    if not spec.fused:
        return {}
    return weights.parts(
        at, spec.fused, b.width(x), spec.num_heads, spec.num_kv_heads,
        (spec.head_dim, spec.value_dim), biased=spec.qkv_bias,
    )  # fmt: skip


def _clipped(spec: Gqa, b: Builder, ident: str, x: str) -> str:
    return x if spec.clip is None else b.op("clamp", ident, {"x": x}, limit=float(spec.clip))["y"]


def _turned(spec: Gqa, b: Builder, name: str, x: str, at: Scope, heads: int) -> str:
    """Normed and rotated, in the spec's order."""
    for step in ("rope", "norm") if spec.norm_last else ("norm", "rope"):
        if step == "norm":
            x = _norm(spec, b, name, x, at, heads)
        elif spec.rope is not None:
            x = rotate(b, f"{name}_rope", x, spec.rope, heads=heads)
    return x


def _norm(spec: Gqa, b: Builder, name: str, x: str, at: Scope, heads: int) -> str:
    if spec.qk_norm == "none":
        return x
    ident = f"{name}_norm"
    names = named(Q_NORM if name == "q" else K_NORM)
    dh = spec.head_dim
    size, group = {"head": (dh, dh), "heads": (heads * dh, dh), "full": (heads * dh, 0),
                   "bare": (0, dh)}[spec.qk_norm]  # fmt: skip
    found = {}
    if size:
        dims = (heads, dh) if spec.qk_norm == "heads" else (size,)
        found["weight"] = b.weight(ident, at.leaf(names, dims), role="norm")
    if spec.qk_norm_kind == "layer":
        biases = tuple(f"{name.removesuffix('weight')}bias" for name in names)
        if at.has(*biases) or (not at.names and spec.qk_norm == "head" and spec.qk_norm_bias):
            found["bias"] = b.weight(f"{ident}.bias", at.leaf(biases, (size,)), role="norm")
        return b.op("layernorm", ident, {"x": x}, found, eps=spec.norm_eps, group=group)["y"]
    return norm.rms(b, ident, x, found.get("weight"), eps=spec.norm_eps, group=group,
                    zero_centered=spec.zero_centered)  # fmt: skip


GQA = Mechanism(stem="gqa", spec=Gqa, sees=sees, says=says, read=read, flow=flow)
