"""Grouped-head softmax attention over selected tokens or blocks only."""

from day0.ir.tensor import TensorSpec
from day0.registry.families.gqa import ATTRS, FORMATS, paged_limits
from day0.registry.family import Context, Family, Impl, Shapes, number, reference


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
    impls=(
        reference("day0_kernels.sparse_gqa.reference:sparse_gqa"),
        Impl(
            backend="triton",
            entry="day0_kernels.sparse_gqa.attention:sparse_gqa_paged",
            formats={"kv": FORMATS},
            limits=_paged,
            min_capability=(9, 0),
            parity="sparse_gqa/bf16",
        ),
    ),
)
