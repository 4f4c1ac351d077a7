"""Grouped-query attention over the blocks that an indexer chooses (architectures.md 2.2, 2.10)."""

from dataclasses import dataclass

from day0.mechanisms import block_indexer, gqa
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.spec import Flow, Layer, Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseGqa:
    """The plain attention and what narrows it."""

    attention: gqa.Gqa
    indexer: block_indexer.BlockIndexer


def sees(layer: Layer) -> bool:
    return gqa.sees(layer) and block_indexer.sees(layer.at.child(*gqa.MODULES))


def says(layer: Layer) -> bool:
    return gqa.says(layer) and block_indexer.says(layer)


def read(layer: Layer) -> SparseGqa:
    attention = gqa.read(layer)
    at = layer.at.child(*gqa.MODULES)
    return SparseGqa(attention=attention, indexer=block_indexer.read(layer, at, attention.rope))


def flow(spec: SparseGqa, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    at = at.child(*gqa.MODULES)
    own, indexer = spec.attention, spec.indexer
    selected = block_indexer.flow(indexer, b, x, at)
    q, gate = gqa.queries(own, b, x, at)
    kv = gqa.keys_and_values(own, b, x, at)
    y = b.op(
        "sparse_gqa",
        "attend",
        {"q": q, "selected": selected},
        gqa.sinks(own, b, at),
        {"kv": (kv, "r")},
        num_heads=own.num_heads,
        num_kv_heads=own.num_kv_heads,
        head_dim=own.head_dim,
        value_dim=own.value_dim,
        scale=own.scale,
        num_selected=indexer.num_selected,
        block=indexer.block if indexer.pool == "max" else 1,
        num_lists=indexer.num_lists,
    )["y"]
    return gqa.output(own, b, y, gate, at, b.width(x))


SPARSE_GQA = Mechanism(
    stem="sparse_gqa", spec=SparseGqa, sees=sees, says=says, read=read, flow=flow
)
