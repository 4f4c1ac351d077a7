"""DeepSeek-V4 attention: an entry is key and value at once; a window beside pooled entries."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Context, Family, Shapes, number, real, reference
from day0.registry.ways import heads


def _entries(shapes: Shapes, context: Context) -> dict[str, float]:
    attrs = shapes.attrs
    read = {"window": min(context.seen, attrs["window"])}
    if attrs["ratio"]:
        pooled = context.seen / attrs["ratio"]
        limit = attrs["num_selected"]
        read["compressed"] = min(pooled, limit) if limit else pooled
    return read


FAMILY = Family(
    name="shared_kv",
    what="one softmax, with a sink logit per head in its denominator, over entries that are key and"
    " value at once: the last `window` tokens (the row itself among them) and, where ratio > 0,"
    " the pools of `ratio` tokens that are closed at the row (num_selected > 0: those of them"
    " that `selected` numbers, -1 none)",
    inputs=("q", "selected?"),
    weights=("sink",),
    caches=("window", "compressed?"),
    outputs=("y",),
    attrs={
        "num_heads": number(),
        "head_dim": number(),
        "scale": real(),
        "window": number(),
        "ratio": number(0),
        "num_selected": number(0),
    },
    infer=lambda s: {"y": TensorSpec(dims=s.inputs["q"].dims, format=s.inputs["q"].format)},
    flops=lambda s, c: (
        4.0 * s.attrs["num_heads"] * s.attrs["head_dim"] * sum(_entries(s, c).values())
    ),
    entries=_entries,
    # an entry is key and value of all heads
    ways=lambda s: (heads(s.attrs, ("q",), weights=(("sink", 0),)),),
    impls=(reference("day0_kernels.shared_kv.reference:shared_kv"),),
)
