"""Grouped-head softmax attention over selected tokens or blocks only."""

from dataclasses import replace

from day0.ir.tensor import TensorSpec
from day0.registry.families.gqa import ATTRS, FORMATS, paged_limits
from day0.registry.families.gqa import ways as _heads
from day0.registry.family import Context, Family, Impl, Shapes, number, reference
from day0.registry.ways import Way


def _selected(shapes: Shapes, context: Context) -> float:
    return min(context.seen, shapes.attrs["num_selected"] * shapes.attrs["block"])


def _flops(shapes: Shapes, context: Context) -> float:
    dims = shapes.attrs["head_dim"] + shapes.attrs["value_dim"]
    return 2.0 * shapes.attrs["num_heads"] * dims * _selected(shapes, context)


def _paged(shapes: Shapes) -> tuple[str, ...]:
    groups, lists = shapes.attrs["num_kv_heads"], shapes.attrs["num_lists"]
    reasons = paged_limits(shapes)
    if groups % lists:
        reasons += (f"{lists} lists for {groups} key heads (takes as many heads a list)",)
    return reasons


def _ways(shapes: Shapes) -> tuple[Way, ...]:
    """A list belongs to the query heads of a key/value head, or to all of them."""
    (way,) = _heads(shapes)
    if shapes.attrs["num_lists"] == 1:
        return (way,)
    query, keys = way.cuts
    return (
        replace(
            way,
            cuts=(query, replace(keys, inputs=("selected",), counts=(*keys.counts, "num_lists"))),
        ),
    )


FAMILY = Family(
    name="sparse_gqa",
    what="causal softmax attention over the selected blocks of `block` tokens only (-1: none);"
    " num_lists > 1: `selected` is [lists, num_selected], one list for the query heads of each"
    " KV head",
    inputs=("q", "selected"),
    weights=("sink?",),
    caches=("kv",),
    outputs=("y",),
    attrs={**ATTRS, "num_selected": number(), "block": number(1), "num_lists": number(1)},
    infer=lambda s: {
        "y": TensorSpec(dims=(s.rows("q"), s.attrs["num_heads"] * s.attrs["value_dim"]))
    },
    flops=_flops,
    entries=lambda s, c: {"kv": _selected(s, c)},
    ways=_ways,
    impls=(
        reference("day0_kernels.sparse_gqa.reference:sparse_gqa"),
        Impl(
            backend="triton",
            entry="day0_kernels.sparse_gqa.attention:sparse_gqa_paged",
            formats={"kv": FORMATS},
            limits=_paged,
            min_capability=(9, 0),
            parity="sparse_gqa/bf16",
            launches=2,
        ),
    ),
)
