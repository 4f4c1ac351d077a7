"""Multi-head latent attention, dense or over an indexer's selection (architectures.md [MLA])."""

from day0.errors import Day0Error
from day0.ir.tensor import TensorSpec
from day0.ir.weight import Expr, Pick
from day0.mechanisms import indexer as dsa
from day0.mechanisms._mla_read import (
    ALPHA,
    GATE,
    KV_A,
    KV_A_NORM,
    KV_B,
    MODULES,
    OUT,
    SINK,
    Mla,
    Q,
    read,
    says,
    sees,
)
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.norm import rms, weighted_rms
from day0.mechanisms.rope import rotate
from day0.mechanisms.spec import Flow, Mechanism


def flow(spec: Mla, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    at = at.child(*MODULES)
    nh, dv = spec.num_heads, spec.value_dim
    q, q_latent, gate = _query(spec, b, x, at)
    frequencies = _frequencies(spec, b, at) if spec.learned_rope else None
    if spec.rope is not None:
        q = rotate(b, "q_rope", q, spec.rope, heads=nh, frequencies=frequencies)
    if spec.ssmax:
        weights = {
            "scale": b.weight("ssmax.s", at.leaf("ssmax_scaling.s", (nh,)), role="state"),
            "bias": b.weight("ssmax.b", at.leaf("ssmax_scaling.b", (nh,)), role="state"),
        }
        q = b.op("position_scale", "ssmax", {"x": q}, weights, rule="ssmax", num_heads=nh)["y"]
    latent = _latent(spec, b, x, at, flow, frequencies)
    kv_b = at.leaf(tuple(f"{name}.weight" for name in KV_B), (
        nh * (spec.nope_dim + dv), spec.kv_rank,
    ))  # fmt: skip
    per_head = spec.nope_dim + dv
    weights = {
        "w_uk": b.weight("w_uk", _rows(kv_b, per_head, 0, spec.nope_dim), role="attention_proj"),
        "w_uv": b.weight("w_uv", _rows(kv_b, per_head, spec.nope_dim, per_head),
                         role="attention_proj"),
    }  # fmt: skip
    if spec.sink:
        weights["sink"] = b.weight("sink", at.leaf(SINK, (nh,)), role="state")
    attrs = {
        "num_heads": nh,
        "nope_dim": spec.nope_dim,
        "rope_dim": spec.rope_dim,
        "value_dim": dv,
        "latent_dim": spec.kv_rank,
        "scale": spec.scale,
    }
    selected = None
    if spec.indexer is not None:
        inner = at.child("indexer")
        selected = dsa.flow(spec.indexer, b, x, q_latent, inner, flow, frequencies)
    elif spec.topk_of >= 0:
        selected = flow.kept[dsa.TOPK]
    uses = {"latent": (latent, "r")}
    if selected is None:
        y = b.op("mla", "attend", {"q": q}, weights, uses, window=spec.window, **attrs)["y"]
    else:
        count = b.values[selected].width
        inputs = {"q": q, "selected": selected}
        y = b.op("sparse_mla", "attend", inputs, weights, uses, num_selected=count, **attrs)["y"]
    if gate is None and spec.out_gate != "none":
        width = nh if spec.out_gate == "head" else nh * dv
        gate = b.project("g_proj", x, at, GATE, width, role="attention_proj")
    if gate is not None:
        heads = nh if spec.out_gate == "head" else 0
        inputs = {"x": y, "gate": gate}
        y = b.op("gate", "out_gate", inputs, activation="sigmoid", num_heads=heads)["y"]
    return b.project("o_proj", y, at, OUT, b.width(x), role="attention_proj", bias=spec.bias)


def _frequencies(spec: Mla, b: Builder, at: Scope) -> str:
    """The learned factors on the rotary frequencies, shared by all layers (LeRoPE)."""
    assert spec.rope is not None
    name = "rope_alpha"
    if name in b.weights:
        return name
    leaf = at.root().leaf(ALPHA, (spec.rope.dims // 2,))
    return b.weight(name, leaf, role="state", top=True)


def _query(spec: Mla, b: Builder, x: str, at: Scope) -> tuple[str, str | None, str | None]:
    """(q [T, heads*(nope+rope)], the normed query latent, the fused output gate)."""
    width = spec.num_heads * (spec.nope_dim + spec.rope_dim)
    if not spec.q_rank:
        return b.project("q_proj", x, at, Q, width, role="attention_proj"), None, None
    raw = b.project(
        "q_a_proj", x, at, "q_a_proj", spec.q_rank, role="attention_proj", bias=spec.bias
    )
    latent = weighted_rms(
        b, "q_a_norm", raw, at, "q_a_layernorm.weight",
        eps=spec.latent_eps, size=spec.q_rank, scale=spec.q_scale,
    )  # fmt: skip
    if spec.out_gate != "fused":
        return b.project("q_b_proj", latent, at, "q_b_proj", width, role="attention_proj"), \
            latent, None  # fmt: skip
    both = b.op("concat", "q_latents", {"x0": latent, "x1": raw})["y"]
    dqk, dv = spec.nope_dim + spec.rope_dim, spec.value_dim
    fused = at.leaf("q_b_proj.weight", (spec.num_heads * (dqk + dv), 2 * spec.q_rank))
    q = b.linear("q_b_proj", both, _rows(fused, dqk + dv, 0, dqk), role="attention_proj")
    gate = b.linear("q_b_gate", both, _rows(fused, dqk + dv, dqk, dqk + dv), role="attention_proj")
    return q, latent, gate


def _latent(spec: Mla, b: Builder, x: str, at: Scope, flow: Flow, frequencies: str | None) -> str:
    """The cache of latents that this layer reads; written here unless another layer owns it."""
    if spec.kv_of >= 0:
        owner = f"layers.{spec.kv_of}.mixer.latent"
        if owner not in b.caches:
            raise Day0Error(
                f"layer {b.layer} reads the latents of layer {spec.kv_of}, which keeps none",
                hint="mend kv_source_layers in config.json",
            )
        return owner
    rank, rope_dim = spec.kv_rank, spec.rope_dim
    kv_a: Expr = at.leaf(tuple(f"{name}.weight" for name in KV_A), (rank + rope_dim, b.width(x)))
    whole = rank + rope_dim
    bias_name = at.spelling(tuple(f"{name}.bias" for name in KV_A))
    bias = at.leaf(bias_name, (whole,)) if spec.bias or at.has(bias_name) else None
    raw = b.linear(
        "kv_a_proj", x, _rows(kv_a, whole, 0, rank), role="attention_proj",
        bias=None if bias is None else _rows(bias, whole, 0, rank),
    )  # fmt: skip
    latent = weighted_rms(
        b, "kv_a_norm", raw, at, KV_A_NORM, eps=spec.latent_eps, size=rank, scale=spec.kv_scale
    )
    parts = [("latent", TensorSpec(dims=(rank,), format=b.plain))]
    written = {"part0": latent}
    if rope_dim:
        k_rope = b.linear(
            "k_rope_proj", x, _rows(kv_a, whole, rank, whole), role="attention_proj",
            bias=None if bias is None else _rows(bias, whole, rank, whole),
        )  # fmt: skip
        if spec.k_rope_norm:
            weight = b.weight(
                "k_rope_norm", at.leaf("k_rope_only_layernorm.weight", (rope_dim,)), role="norm"
            )
            k_rope = rms(b, "k_rope_norm", k_rope, weight, eps=spec.latent_eps)
        if spec.rope is not None:
            k_rope = rotate(b, "k_rope", k_rope, spec.rope, heads=1, frequencies=frequencies)
        parts.append(("k_rope", TensorSpec(dims=(rope_dim,), format=b.plain)))
        written["part1"] = k_rope
    cache = b.cache(
        "latent",
        growth="window" if spec.window else "per-token",
        span=spec.window,
        role="kv",
        parts=tuple(parts),
    )
    b.op("cache_write", "latent_write", written, {}, {"cache": (cache, "w")})
    return cache


def _rows(leaf: Expr, period: int, start: int, stop: int) -> Expr:
    if start == 0 and stop == period:
        return leaf
    return Pick(of=leaf, dim=0, period=period, start=start, stop=stop)  # type: ignore[arg-type]


MLA = Mechanism(stem="mla", spec=Mla, sees=sees, says=says, read=read, flow=flow)
