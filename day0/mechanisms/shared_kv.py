"""DeepSeek-V4 attention: one shared vector per token is key and value; a window of raw tokens, and
in compressed layers entries pooled over the whole history beside it, all of them ("hca") or those
an indexer chooses ("csa") (architectures.md 2.6)."""

from collections.abc import Mapping
from dataclasses import dataclass

from day0.ir.tensor import TensorSpec
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.norm import rms, weighted_rms
from day0.mechanisms.rope import Rope, rotate, table
from day0.mechanisms.spec import Flow, Layer, Mechanism

MODULES = ("attn", "self_attn")
Q_A = ("wq_a", "q_a_proj")
Q_NORM = ("q_norm.weight", "q_a_norm.weight")
Q_B = ("wq_b", "q_b_proj")
KV = ("wkv", "kv_proj")
KV_NORM = ("kv_norm.weight", "norm.weight")
GATE = ("wgate", "gate_proj")
BIAS = ("ape", "position_bias")
SINK = ("attn_sink", "sinks")
OUT_A = ("wo_a", "o_a_proj")
OUT_B = ("wo_b", "o_b_proj")
RATES = {
    "csa": ("compress_rates.compressed_sparse_attention", "compress_rate_csa"),
    "hca": ("compress_rates.heavily_compressed_attention", "compress_rate_hca"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryIndexer:
    """Chooses `top_k` of the pooled entries by index keys pooled the same way."""

    num_heads: int
    head_dim: int
    top_k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedKv:
    """`ratio` 0: the window only; else tokens per compressed entry. `overlap`: an entry also takes
    from the pool before. `groups` blocks of the first output matrix, `out_rank` channels each.
    `rope` serves queries, entries and, inverted, the output."""

    num_heads: int
    head_dim: int
    q_rank: int
    groups: int
    out_rank: int
    window: int
    ratio: int
    overlap: bool
    indexer: EntryIndexer | None
    rope: Rope
    scale: float
    norm_eps: float


def sees(layer: Layer) -> bool:
    at = layer.at.child(*MODULES)
    return at.has(*(f"{name}.weight" for name in KV)) and at.has(
        *(f"{name}.weight" for name in OUT_A)
    )


def says(layer: Layer) -> bool:
    return layer.word in ("sliding", "csa", "hca", "") and layer.cfg.says(
        "o_lora_rank", "o_groups", "compress_rope_theta"
    )


def read(layer: Layer) -> SharedKv:
    cfg, at = layer.cfg, layer.at.child(*MODULES)
    kind = _kind(layer, at)
    ratio = _ratio(layer, at, kind)
    head_dim = cfg.get(
        "shared_kv.head_dim", "head_dim", derive=lambda: at.dim(0, "wkv.weight", "kv_proj.weight")
    )
    cfg.word("num_key_value_heads")  # always 1: key and value of all heads are the one vector
    cfg.word("attention_bias")  # no published reader gives these projections biases
    heads = cfg.get("shared_kv.num_heads", "num_attention_heads", derive=lambda: at.dim(0, *SINK))
    rank = cfg.get("shared_kv.out_rank", "o_lora_rank")
    return SharedKv(
        num_heads=heads,
        head_dim=head_dim,
        q_rank=cfg.get("shared_kv.q_rank", "q_lora_rank", derive=lambda: at.dim(0, *Q_NORM)),
        groups=cfg.get(
            "shared_kv.groups", "o_groups", derive=lambda: _groups(at, heads * head_dim)
        ),
        out_rank=rank,
        window=cfg.get("shared_kv.window", "sliding_window"),
        ratio=ratio,
        overlap=_overlap(layer, at, kind, head_dim),
        indexer=_indexer(layer, at) if kind == "csa" else None,
        rope=_rope(layer, head_dim, compressed=kind != "sliding"),
        scale=max(head_dim, 1) ** -0.5,
        norm_eps=layer.shape.norm_eps,
    )


def _kind(layer: Layer, at: Scope) -> str:
    cfg = layer.cfg
    listed = cfg.word("compress_ratios")
    if at.names:
        if not at.has_module("compressor"):
            return "sliding"
        return "csa" if at.has_module("indexer") else "hca"
    if listed is not None and layer.index < len(listed):
        ratio = listed[layer.index]  # drafts have entries too
        return "sliding" if not ratio else "csa" if ratio < 32 else "hca"
    if not cfg.says("layer_types"):
        # two layers with all entries, then with all and with chosen ones in turn
        kind = "csa" if layer.index > 1 and layer.index % 2 else "hca"
        return cfg.note("shared_kv.kind", kind, "default", "transformers 5.24, deepseek_v4")
    return layer.word or "sliding"


def _ratio(layer: Layer, at: Scope, kind: str) -> int:
    if kind == "sliding":
        return 0
    cfg, path = layer.cfg, f"shared_kv.ratio.{kind}"
    listed = cfg.word("compress_ratios")
    if listed is not None and layer.index < len(listed) and listed[layer.index]:
        return cfg.note(path, int(listed[layer.index]), "config", "config.json:compress_ratios")
    return cfg.get(
        path, *RATES[kind], derive=lambda: at.dim(0, *(f"compressor.{name}" for name in BIAS)),
        assume={"csa": 4, "hca": 128}[kind],
    )  # fmt: skip


def _overlap(layer: Layer, at: Scope, kind: str, head_dim: int) -> bool:
    """Twice the columns: one half for the pool itself, one for the next."""
    if kind == "sliding":
        return False
    columns = at.dim(1, *(f"compressor.{name}" for name in BIAS))
    path = f"shared_kv.overlap.{kind}"
    if columns is not None:
        return layer.cfg.note(path, columns == 2 * head_dim, "header", "columns of compressor.ape")
    return layer.cfg.note(path, kind == "csa", "known", "transformers 5.24, deepseek_v4")


def _groups(at: Scope, width: int) -> int | None:
    columns = at.dim(1, *(f"{name}.weight" for name in OUT_A))
    return None if not columns else width // columns


def _indexer(layer: Layer, at: Scope) -> EntryIndexer:
    cfg, inner = layer.cfg, at.child("indexer")
    return EntryIndexer(
        num_heads=cfg.get(
            "shared_kv.index_heads",
            "index_n_heads",
            derive=lambda: inner.dim(0, "weights_proj.weight"),
        ),
        head_dim=cfg.get(
            "shared_kv.index_dim",
            "index_head_dim",
            derive=lambda: inner.dim(0, "compressor.norm.weight", "compressor.kv_norm.weight"),
        ),
        top_k=cfg.get("shared_kv.index_top_k", "index_topk"),
    )


def _rope(layer: Layer, head_dim: int, *, compressed: bool) -> Rope:
    """Window-only layers have the plain table, compressed ones their own base and the scaling."""
    cfg = layer.cfg
    label = "compress" if compressed else "main"
    words = cfg.word("rope_parameters")
    nested = isinstance(words, Mapping) and isinstance(words.get(label), Mapping)
    scaling, args, partial = "default", (), None
    key = "compress_rope_theta" if compressed else "rope_theta"
    theta = cfg.get(f"rope.theta.{label}", key, assume=10000.0, decisive=True)
    # a flat rope_scaling is meant for compressed layers only
    found = table(cfg, label, key) if nested or compressed else None
    if found is not None:
        theta, scaling, args, partial = found.theta, found.scaling, found.args, found.partial
    else:
        cfg.note(f"rope.scaling.{label}", scaling, "known", "transformers 5.24, deepseek_v4")
    if scaling == "yarn" and "attention_factor" not in dict(args):
        factor = cfg.get("shared_kv.attention_factor", assume=1.0, decisive=True)
        args = tuple(sorted((*args, ("attention_factor", float(factor)))))
    return Rope(
        dims=_rope_dims(layer, head_dim, partial),
        theta=float(theta),
        scaling=scaling,
        args=args,
        pairing=cfg.get("shared_kv.rope_pairing", assume="interleaved", decisive=True),
        place=cfg.get("shared_kv.rope_place", assume="last", decisive=True),
    )


def _rope_dims(layer: Layer, head_dim: int, partial: float | None) -> int:
    cfg = layer.cfg
    stated = cfg.word("qk_rope_head_dim")
    share = cfg.word("partial_rotary_factor") if partial is None else partial
    if stated is not None:
        source = "config.json:qk_rope_head_dim"
        return cfg.note("shared_kv.rope_dims", int(stated), "config", source)
    if share is None:
        share = cfg.get("shared_kv.partial", assume=0.125, decisive=True)
    return cfg.note("shared_kv.rope_dims", int(head_dim * share), "config", "partial_rotary_factor")


def flow(spec: SharedKv, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    at = at.child(*MODULES)
    nh, dh = spec.num_heads, spec.head_dim
    raw = b.project("q_a_proj", x, at, Q_A, spec.q_rank, role="attention_proj")
    latent = weighted_rms(b, "q_norm", raw, at, Q_NORM, eps=spec.norm_eps, size=spec.q_rank)
    q = b.project("q_b_proj", latent, at, Q_B, nh * dh, role="attention_proj")
    q = rms(b, "q_head_norm", q, None, eps=spec.norm_eps, group=dh)
    q = rotate(b, "q_rope", q, spec.rope, heads=nh)
    kv = b.project("kv_proj", x, at, KV, dh, role="attention_proj")
    kv = weighted_rms(b, "kv_norm", kv, at, KV_NORM, eps=spec.norm_eps, size=dh)
    kv = rotate(b, "kv_rope", kv, spec.rope, heads=1)
    window = b.cache(
        "window",
        growth="window",
        span=spec.window,
        role="kv",
        parts=(("kv", TensorSpec(dims=(dh,), format=b.plain)),),
    )
    b.op("cache_write", "window_write", {"part0": kv}, {}, {"cache": (window, "w")})
    inputs, uses = {"q": q}, {"window": (window, "r")}
    if spec.ratio:
        inner = at.child("compressor")
        uses["compressed"] = (_compress(spec, b, x, inner, "entries", dh, "kv"), "r")
    if spec.indexer is not None:
        inputs["selected"] = _choose(spec, spec.indexer, b, x, latent, at.child("indexer"))
    y = b.op(
        "shared_kv",
        "attend",
        inputs,
        {"sink": b.weight("sink", at.leaf(SINK, (nh,)), role="state")},
        uses,
        num_heads=nh,
        head_dim=dh,
        scale=spec.scale,
        window=spec.window,
        ratio=spec.ratio,
        num_selected=spec.indexer.top_k if spec.indexer is not None else 0,
    )["y"]
    # values carry the rotation of their keys: undone at the row's own position
    y = rotate(b, "out_rope", y, spec.rope, heads=nh, inverse=True)
    first = at.leaf(
        tuple(f"{name}.weight" for name in OUT_A),
        (spec.groups * spec.out_rank, nh * dh // spec.groups),
    )
    y = b.linear("o_a_proj", y, first, role="attention_proj", groups=spec.groups)
    return b.project("o_b_proj", y, at, OUT_B, b.width(x), role="attention_proj")


def _compress(
    spec: SharedKv, b: Builder, x: str, at: Scope, ident: str, dim: int, role: str
) -> str:
    """The cache of pooled entries of width `dim`, with the pools that close in this step."""
    width = 2 * dim if spec.overlap else dim
    weight_role = "index_k" if role == "index" else "attention_proj"
    with b.at(ident):
        values = b.project("kv_proj", x, at, KV, width, role=weight_role)
        gate = b.project("gate_proj", x, at, GATE, width, role=weight_role)
        weights = {
            "position_bias": b.weight("bias", at.leaf(BIAS, (spec.ratio, width)), role="state"),
            "norm_weight": b.weight("norm", at.leaf(KV_NORM, (dim,)), role="norm"),
        }
        pooled = b.cache(
            "pooled",
            growth="pooled",
            role=role,
            every=spec.ratio,
            align=spec.ratio,
            parts=(("entry", TensorSpec(dims=(dim,), format=b.plain)),),
        )
        raw = TensorSpec(dims=(width,), format=b.plain)
        tail = b.cache(
            "tail",
            growth="window",
            role="conv",
            # with overlap the closed pool before the open one is still needed
            span=2 * spec.ratio - 1 if spec.overlap else spec.ratio - 1,
            slotted=True,
            align=spec.ratio,
            parts=(("entry", raw), ("gate", raw)),
        )
        b.op(
            "compress",
            "pool",
            {"x": values, "gate": gate},
            weights,
            {"tail": (tail, "rw"), "pooled": (pooled, "w")},
            size=spec.ratio,
            rule="softmax",
            overlap=spec.overlap,
            norm="rms",
            norm_eps=spec.norm_eps,
            rope_dims=spec.rope.dims,
            rope_place=spec.rope.place,
            rope_pairing=spec.rope.pairing,
            **spec.rope.table(),
        )
    return pooled


def _choose(spec: SharedKv, index: EntryIndexer, b: Builder, x: str, latent: str, at: Scope) -> str:
    """Numbers of the chosen entries [T, top_k]."""
    ni, di = index.num_heads, index.head_dim
    with b.at("indexer"):
        keys = _compress(spec, b, x, at.child("compressor"), "keys", di, "index")
        q = b.project("wq_b", latent, at, Q_B, ni * di, role="index_q")
        q = rotate(b, "q_rope", q, spec.rope, heads=ni)
        weights = b.project("weights_proj", x, at, "weights_proj", ni, role="index_q")
        return b.op(
            "indexer",
            "topk",
            {"q": q, "head_weights": weights},
            {},
            {"keys": (keys, "r")},
            num_heads=ni,
            head_dim=di,
            top_k=index.top_k,
            scale=ni**-0.5 * di**-0.5,
            pool="softmax",
            block=spec.ratio,
            unit="block",
        )["selected"]


SHARED_KV = Mechanism(stem="shared_kv", spec=SharedKv, sees=sees, says=says, read=read, flow=flow)
