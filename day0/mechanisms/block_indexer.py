"""Indexers of grouped-query attention: which blocks of tokens a row attends (architectures.md 2.2
QSA, 2.10). One kind pools index keys in the cache and picks blocks for all heads, the other pools
scores and picks blocks per KV head. Not a mixer: `sparse_gqa` reads and runs it."""

from dataclasses import dataclass
from typing import Any

from day0.ir.tensor import TensorSpec
from day0.ir.weight import Expr, Pick
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.norm import weighted_rms
from day0.mechanisms.rope import Rope, rotate
from day0.mechanisms.spec import Layer

MODULE = "indexer"
FUSED = "index_qk_proj.weight"
# In a module of their own, or beside the attention's tensors.
QUERY = ("indexer.q_proj", "index_q_proj")
KEY = ("indexer.k_proj", "index_k_proj")
QUERY_NORM = ("indexer.q_norm.weight", "index_q_norm.weight")
KEY_NORM = ("indexer.k_norm.weight", "index_k_norm.weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockIndexer:
    """`pool` "mean": keys of `block` tokens are averaged, normed, rotated at the block's first
    token and cached as one; the best `num_blocks` and the open block's tokens are chosen for all
    heads. "max": a block's score is its best token's, one list of `num_blocks` per index head,
    the last `local_blocks` always among them."""

    pool: str
    num_heads: int
    head_dim: int
    block: int
    num_blocks: int
    local_blocks: int
    rope: Rope | None
    norm_eps: float
    zero_centered: bool

    @property
    def num_selected(self) -> int:
        """Numbers in a list: tokens of the chosen blocks and of the open one, or blocks."""
        if self.pool == "max":
            return self.num_blocks
        return self.num_blocks * self.block + self.block - 1

    @property
    def num_lists(self) -> int:
        return self.num_heads if self.pool == "max" else 1


def sees(at: Scope) -> bool:
    """`at` the attention module."""
    return at.has(f"{MODULE}.{FUSED}", *(f"{name}.weight" for name in QUERY))


def says(layer: Layer) -> bool:
    cfg = layer.cfg
    if cfg.says("indexer_budget"):
        return layer.word in ("indexed", "full")  # older files call these layers full
    if cfg.word("sparse_attention_config.use_sparse_attention") is False:
        return False
    return layer.word == "indexed" and cfg.says(
        "index_topk_blocks", "sparse_attention_config.sparse_topk_blocks"
    )


def read(layer: Layer, at: Scope, rope: Rope | None) -> BlockIndexer:
    """`rope` is the main attention's: the same channels turn by the same angles."""
    pooled = at.has(f"{MODULE}.{FUSED}") or (not at.names and layer.cfg.says("indexer_budget"))
    sizes = _mean_sizes(layer, at) if pooled else _max_sizes(layer, at)
    return BlockIndexer(
        pool=layer.cfg.note(
            "block_indexer.pool",
            "mean" if pooled else "max",
            "header" if at.names else "config",
            "the indexer's tensors or words",
        ),
        rope=rope,
        norm_eps=layer.shape.norm_eps,
        zero_centered=layer.shape.zero_centered,
        **sizes,
    )


def _mean_sizes(layer: Layer, at: Scope) -> dict[str, int]:
    cfg = layer.cfg
    inner = at.child(MODULE)
    cfg.word("indexer_kv_heads")  # one key for all index heads: the norm's rows tell
    block = cfg.get("block_indexer.block", "indexer_compress_ratio")
    head_dim = cfg.get(
        "block_indexer.head_dim", "indexer_head_dim",
        derive=lambda: inner.dim(0, "k_layernorm.weight"),
    )  # fmt: skip
    return {
        "num_heads": cfg.get(
            "block_indexer.num_heads",
            "indexer_n_heads",
            derive=lambda: _divided(inner.dim(0, FUSED), head_dim, 1),
        ),
        "head_dim": head_dim,
        "block": block,
        "num_blocks": cfg.get("block_indexer.budget", "indexer_budget") // block,
        "local_blocks": 0,
    }


def _max_sizes(layer: Layer, at: Scope) -> dict[str, int]:
    cfg, nested = layer.cfg, "sparse_attention_config."
    head_dim = cfg.get(
        "block_indexer.head_dim", "index_head_dim", nested + "sparse_index_dim",
        derive=lambda: at.dim(0, *KEY_NORM),
    )  # fmt: skip
    # index values are off in every published file, as are blocks at the sequence's start; the
    # pooling is a maximum; index_topk restates blocks in tokens
    for key in ("sparse_disable_index_value", "sparse_init_block", "sparse_score_type",
                "use_sparse_attention"):  # fmt: skip
        cfg.word(nested + key)
    return {
        "num_heads": cfg.get(
            "block_indexer.num_heads",
            "index_n_heads",
            nested + "sparse_num_index_heads",
            derive=lambda: _divided(at.dim(0, *(f"{name}.weight" for name in QUERY)), head_dim, 0),
        ),
        "head_dim": head_dim,
        "block": cfg.get("block_indexer.block", "index_block_size", nested + "sparse_block_size"),
        "num_blocks": cfg.get(
            "block_indexer.num_blocks", "index_topk_blocks", nested + "sparse_topk_blocks"
        ),
        "local_blocks": cfg.get(
            "block_indexer.local_blocks",
            "index_local_blocks",
            nested + "sparse_local_block",
            assume=1,
            decisive=True,
        ),
    }


def _divided(rows: int | None, size: int, less: int) -> int | None:
    return None if rows is None else rows // size - less


def flow(spec: BlockIndexer, b: Builder, x: str, at: Scope) -> str:
    """The lists [T, num_lists * num_selected], -1 where fewer are visible."""
    mean = spec.pool == "mean"
    with b.at("indexer"):
        q, k = _project(spec, b, x, at)
        if spec.rope is not None:
            q = rotate(b, "q_rope", q, spec.rope, heads=spec.num_heads)
        caches = _pooled_keys(spec, b, k, at) if mean else _token_keys(spec, b, k, at)
        return b.op(
            "indexer",
            "topk",
            {"q": q},
            {},
            caches,
            num_heads=spec.num_heads,
            head_dim=spec.head_dim,
            top_k=spec.num_selected,
            scale=spec.head_dim**-0.5 if mean else 1.0,
            relu=mean,
            pool=spec.pool,
            block=spec.block,
            unit="token" if mean else "block",
            tail=mean,
            local_blocks=spec.local_blocks,
            num_lists=spec.num_lists,
        )["selected"]


def _project(spec: BlockIndexer, b: Builder, x: str, at: Scope) -> tuple[str, str]:
    """(normed queries, raw keys)."""
    queries = spec.num_heads * spec.head_dim
    if spec.pool == "mean":
        whole = queries + spec.head_dim
        fused = at.child(MODULE).leaf(FUSED, (whole, b.width(x)))
        parts: list[Expr] = [
            Pick(of=fused, dim=0, period=whole, start=start, stop=stop)
            for start, stop in ((0, queries), (queries, whole))
        ]
        q = b.linear("q_proj", x, parts[0], role="index_q")
        k = b.linear("k_proj", x, parts[1], role="index_k")
        names = (f"{MODULE}.q_layernorm.weight",)
    else:
        q = b.project("q_proj", x, at, QUERY, queries, role="index_q")
        k = b.project("k_proj", x, at, KEY, spec.head_dim, role="index_k")
        names = QUERY_NORM
    q = weighted_rms(
        b, "q_norm", q, at, names, size=spec.head_dim, group=spec.head_dim,
        eps=spec.norm_eps, zero_centered=spec.zero_centered,
    )  # fmt: skip
    return q, k


def _entry(spec: BlockIndexer, b: Builder) -> tuple[tuple[str, TensorSpec], ...]:
    return (("entry", TensorSpec(dims=(spec.head_dim,), format=b.plain)),)


def _token_keys(spec: BlockIndexer, b: Builder, k: str, at: Scope) -> dict[str, tuple[str, str]]:
    """A key for every token: normed, rotated, cached."""
    k = weighted_rms(
        b, "k_norm", k, at, KEY_NORM, size=spec.head_dim,
        eps=spec.norm_eps, zero_centered=spec.zero_centered,
    )  # fmt: skip
    if spec.rope is not None:
        k = rotate(b, "k_rope", k, spec.rope, heads=1)
    keys = b.cache("keys", growth="per-token", role="index", parts=_entry(spec, b))
    b.op("cache_write", "write", {"part0": k}, {}, {"cache": (keys, "w")})
    return {"keys": (keys, "r")}


def _pooled_keys(spec: BlockIndexer, b: Builder, k: str, at: Scope) -> dict[str, tuple[str, str]]:
    """A key for every closed block: averaged, normed, rotated; raw keys of the open block."""
    block, parts = spec.block, _entry(spec, b)
    keys = b.cache("keys", growth="pooled", role="index", every=block, align=block, parts=parts)
    tail = b.cache(
        "tail",
        growth="window",
        role="conv",
        span=block - 1,
        slotted=True,
        align=block,
        parts=parts,
    )
    norm = at.child(MODULE).leaf("k_layernorm.weight", (spec.head_dim,))
    rotation: dict[str, Any] = {}
    if spec.rope is not None:
        rotation = {
            "rope_dims": spec.rope.dims,
            "rope_place": spec.rope.place,
            "rope_pairing": spec.rope.pairing,
            **spec.rope.table(),
        }
    b.op(
        "compress",
        "pool",
        {"x": k},
        {"norm_weight": b.weight("k_norm", norm, role="norm")},
        {"tail": (tail, "rw"), "pooled": (keys, "w")},
        size=block,
        rule="mean",
        norm="rms",
        norm_eps=spec.norm_eps,
        zero_centered=spec.zero_centered,
        **rotation,
    )
    return {"keys": (keys, "r")}
