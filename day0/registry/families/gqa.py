"""Softmax attention with grouped key/value heads over a cache of keys and values."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Attr, Context, Family, Impl, Shapes, number, real, reference
from day0.registry.ways import Way, grouped_heads


def seen(shapes: Shapes, context: Context) -> float:
    """Entries a row reads: all before it, or its window."""
    window = shapes.attrs["window"]
    return min(context.seen, window) if window else context.seen


def _flops(shapes: Shapes, context: Context) -> float:
    heads = shapes.attrs["num_heads"]
    dims = shapes.attrs["head_dim"] + shapes.attrs["value_dim"]
    return 2.0 * heads * dims * seen(shapes, context)


ATTRS: dict[str, Attr] = {
    "num_heads": number(),
    "num_kv_heads": number(),
    "head_dim": number(),
    "value_dim": number(),
    "scale": real(),
}


def ways(shapes: Shapes) -> tuple[Way, ...]:
    """Heads; a sink logit goes with its head."""
    own = (("sink", 0),) if "sink" in shapes.weights else ()
    return (grouped_heads(shapes.attrs, ("q",), weights=own),)


FAMILY = Family(
    name="gqa",
    what="causal softmax attention, grouped heads; window > 0: only the last `window` tokens",
    inputs=("q",),
    weights=("sink?",),
    caches=("kv",),
    outputs=("y",),
    attrs={**ATTRS, "window": number(0), "softcap": real(None)},
    infer=lambda s: {
        "y": TensorSpec(dims=(s.rows("q"), s.attrs["num_heads"] * s.attrs["value_dim"]))
    },
    flops=_flops,
    entries=lambda s, c: {"kv": seen(s, c)},
    ways=ways,
    impls=(
        reference("day0_kernels.gqa.reference:gqa"),
        Impl(
            backend="library",
            entry="torch.nn.functional:scaled_dot_product_attention",
            formats={"kv": ("fp32", "bf16", "fp16")},
            attrs={"softcap": (None,), "window": (0,)},
            limits=lambda s: (
                ("an attention sink (scaled_dot_product_attention has none)",)
                if "sink" in s.weights
                else ()
            ),
        ),
    ),
)
