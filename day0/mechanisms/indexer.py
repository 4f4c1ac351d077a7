"""The lightning indexer of sparse latent attention: scores over cached index keys, top-k of them
(architectures.md [DSA] and 2.1, 2.4-2.5, 2.11-2.14)."""

from collections.abc import Iterable
from dataclasses import dataclass

from day0.errors import NotSupported
from day0.ir.fact import Finding
from day0.ir.tensor import TensorSpec
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.rope import Rope, rotate, said_pairing
from day0.mechanisms.spec import Flow, Layer

MODULES = ("self_attn", "attention", "attn")
TOPK = "selected"  # the key under which later layers find the last top-k list


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """`q_input` "q_latent" (the normed query latent) or "hidden" (the layer input, layer-normed).
    `pool` > 0: keys are pooled over that many tokens by a softmax gate with position biases.
    `tail`: the open pool's tokens are always selected."""

    num_heads: int
    head_dim: int
    top_k: int
    q_input: str
    rope: Rope | None
    k_norm_eps: float
    pool: int = 0
    tail: bool = False
    ssmax: bool = False

    @property
    def width(self) -> int:
        """Tokens that a row selects at most."""
        return self.top_k + (self.pool - 1 if self.pool and self.tail else 0)


def owned(layer: Layer) -> bool:
    """Whether this layer has an indexer of its own (else it may read an earlier layer's list)."""
    said = promised(layer)
    if layer.at.names:
        return layer.at.child(*MODULES).has_module("indexer")
    return True if said is None else said


def promised(layer: Layer) -> bool | None:
    """What the config says of it, by indexer_types | index_topk_pattern | index_topk_freq and
    index_skip_topk_offset; None where it has none of these words."""
    cfg, index = layer.cfg, layer.index
    types = cfg.word("indexer_types")
    pattern = cfg.word("index_topk_pattern")
    every = cfg.get("indexer.every", "index_topk_freq", default=None)
    offset = cfg.get("indexer.offset", "index_skip_topk_offset", default=2)
    if types is not None and index < len(types):
        return types[index] == "full"
    if pattern is not None and index < len(pattern):
        return str(pattern[index]).upper().startswith("F")
    if every is None:
        return None
    return max(index - offset + 1, 0) % every == 0


def conflicts(layers: Iterable[Layer]) -> list[Finding]:
    """Layers that the config and the tensors do not both give an indexer; the tensors count."""
    wrong = [layer.index for layer in layers if promised(layer) not in (None, owned(layer))]
    if not wrong:
        return []
    return [
        Finding(
            code="indexer_conflict",
            severity="warning",
            message=f"config.json and the tensors disagree on which layers have an indexer: "
            f"{', '.join(map(str, wrong[:6]))}; the tensors count",
            evidence=("indexer_types", "index_topk_pattern", "index_topk_freq"),
        )
    ]


def read(layer: Layer, rope: Rope | None) -> Indexer:
    """`rope` is the main attention's; the indexer's own pairing and place are facts."""
    cfg = layer.cfg
    at = layer.at.child(*MODULES).child("indexer")
    dims = cfg.get("indexer.head_dim", "index_head_dim", derive=lambda: at.dim(0, "wk.weight"))
    pool = cfg.word("index_kpool") or 0
    own = None
    cfg.word("indexer_rope_interleave")  # says nothing where nothing is rotated (GLM-5.3-Flash)
    if rope is not None:
        own = Rope(
            dims=rope.dims,
            theta=rope.theta,
            scaling=rope.scaling,
            args=rope.args,
            pairing=_pairing(layer),
            place=cfg.get("indexer.rope_place", assume="first", decisive=True),
        )
    hidden = cfg.get(
        "indexer.q_input",
        derive=lambda: "hidden" if at.has("q_input_norm.weight") else None,
        default="q_latent" if cfg.says("q_lora_rank") else "hidden",
    )
    return Indexer(
        num_heads=cfg.get(
            "indexer.num_heads", "index_n_heads", derive=lambda: at.dim(0, "weights_proj.weight")
        ),
        head_dim=dims,
        top_k=cfg.get("indexer.top_k", "index_topk"),
        q_input=hidden,
        rope=own,
        k_norm_eps=_k_norm_eps(layer),
        pool=pool,
        tail=bool(pool and cfg.get("indexer.tail", "index_kpool_always_select_tail", default=True)),
        ssmax=at.has("ssmax_scaling.s") or (not at.names and hidden == "hidden"),
    )


def _k_norm_eps(layer: Layer) -> float:
    """ "norm.eps" stands for the config's own (HY-V4)."""
    value = layer.cfg.get("indexer.k_norm_eps", default=1e-6)
    return layer.shape.norm_eps if value == "norm.eps" else value


def _pairing(layer: Layer) -> str:
    key = "indexer_rope_interleave"
    return said_pairing(layer.cfg, "indexer.rope_pairing", key, assume="half")


def flow(
    spec: Indexer,
    b: Builder,
    x: str,
    q_latent: str | None,
    at: Scope,
    flow: Flow,
    frequencies: str | None = None,
) -> str:
    """Top-k token ids [T, width] int32, -1 where fewer are visible; kept for later layers.

    `frequencies`: the weight with learned factors on the rotary frequencies, if there is one.
    """
    ni, di = spec.num_heads, spec.head_dim
    with b.at("indexer"):
        q = _query(spec, b, x, q_latent, at, frequencies)
        k = b.project("wk", x, at, "wk", di, role="index_k")
        weights = {
            "weight": b.weight("k_norm", at.leaf("k_norm.weight", (di,)), role="norm"),
            "bias": b.weight("k_norm.bias", at.leaf("k_norm.bias", (di,)), role="norm"),
        }
        k = b.op("layernorm", "k_norm", {"x": k}, weights, eps=spec.k_norm_eps)["y"]
        if spec.rope is not None:
            k = rotate(b, "k_rope", k, spec.rope, heads=1, frequencies=frequencies)
        head_weights = b.project("weights_proj", x, at, "weights_proj", ni, role="index_q")
        caches = {"keys": (_keys(spec, b, x, k, at), "r")}
        if spec.pool:
            caches["tail"] = (b.path + "tail", "r")
        selected = b.op(
            "indexer",
            "topk",
            {"q": q, "head_weights": head_weights},
            {},
            caches,
            num_heads=ni,
            head_dim=di,
            top_k=spec.width,
            scale=ni**-0.5 * di**-0.5,
            pool="softmax" if spec.pool else "none",
            block=spec.pool or 1,
            tail=spec.tail,
        )["selected"]
    flow.kept[TOPK] = selected
    return selected


def _query(
    spec: Indexer,
    b: Builder,
    x: str,
    q_latent: str | None,
    at: Scope,
    frequencies: str | None,
) -> str:
    source = x
    if spec.q_input == "q_latent":
        if q_latent is None:
            raise NotSupported(
                "the indexer reads the query latent, and this attention has none (mla.q_rank is 0)",
                hint="state where its queries come from: --facts with 'indexer.q_input: hidden'",
            )
        source = q_latent
    else:
        width = b.width(x)
        weights = {
            "weight": b.weight("q_norm", at.leaf("q_input_norm.weight", (width,)), role="norm"),
            "bias": b.weight("q_norm.bias", at.leaf("q_input_norm.bias", (width,)), role="norm"),
        }
        source = b.op("layernorm", "q_norm", {"x": x}, weights, eps=spec.k_norm_eps)["y"]
    width = spec.num_heads * spec.head_dim
    q = b.project("wq_b", source, at, "wq_b", width, role="index_q")
    if spec.ssmax:
        weights = {
            "scale": b.weight("s", at.leaf("ssmax_scaling.s", (spec.num_heads,)), role="state"),
            "bias": b.weight("b", at.leaf("ssmax_scaling.b", (spec.num_heads,)), role="state"),
        }
        q = b.op(
            "position_scale", "ssmax", {"x": q}, weights, rule="ssmax", num_heads=spec.num_heads
        )["y"]
    if spec.rope is not None:
        q = rotate(b, "q_rope", q, spec.rope, heads=spec.num_heads, frequencies=frequencies)
    return q


def _keys(spec: Indexer, b: Builder, x: str, k: str, at: Scope) -> str:
    di = spec.head_dim
    entry = (("entry", TensorSpec(dims=(di,), format=b.plain)),)
    if not spec.pool:
        keys = b.cache("keys", growth="per-token", role="index", parts=entry)
        b.op("cache_write", "write", {"part0": k}, {}, {"cache": (keys, "w")})
        return keys
    gate_weight = at.leaf("index_kpool_compress_gate", (di, b.width(x)))
    gate = b.linear("pool_gate", x, gate_weight, role="index_k")
    keys = b.cache(
        "keys", growth="pooled", role="index", every=spec.pool, align=spec.pool, parts=entry
    )
    tail = b.cache(
        "tail",
        growth="window",
        span=spec.pool - 1,
        slotted=True,
        role="index",
        align=spec.pool,
        parts=(*entry, ("gate", TensorSpec(dims=(di,), format=b.plain))),
    )
    bias = b.weight(
        "position_bias", at.leaf("index_kpool_compress_ape", (spec.pool, di)), role="state"
    )
    b.op(
        "compress",
        "pool",
        {"x": k, "gate": gate},
        {"position_bias": bias},
        {"tail": (tail, "rw"), "pooled": (keys, "w")},
        size=spec.pool,
        rule="softmax",
    )
    return keys
