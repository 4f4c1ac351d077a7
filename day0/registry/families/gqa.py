"""Softmax attention with grouped key/value heads over a cache of keys and values."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import (
    Attr,
    Context,
    Family,
    Impl,
    Shapes,
    flag,
    number,
    real,
    reference,
)
from day0.registry.ways import Way, grouped_heads

TILED = "fp8_t128"
FORMATS = ("bf16", "fp16", "fp32", TILED)


def seen(shapes: Shapes, context: Context) -> float:
    """Entries a row reads: all before it, or its window."""
    window = shapes.attrs["window"]
    return min(context.seen, window) if window else context.seen


def _flops(shapes: Shapes, context: Context) -> float:
    heads = shapes.attrs["num_heads"]
    dims = shapes.attrs["head_dim"] + shapes.attrs["value_dim"]
    return 2.0 * heads * dims * seen(shapes, context)


def _plain(shapes: Shapes) -> tuple[str, ...]:
    """What torch's flash kernel has; other sizes would take its slow path."""
    dims = shapes.attrs["head_dim"], shapes.attrs["value_dim"]
    reasons = []
    if "sink" in shapes.weights:
        reasons.append("an attention sink (scaled_dot_product_attention has none)")
    if dims[0] != dims[1] or dims[0] > 256:
        reasons.append(f"heads of {dims[0]} and {dims[1]} (takes equal ones up to 256)")
    return tuple(reasons)


def paged_limits(shapes: Shapes) -> tuple[str, ...]:
    """Sizes that a tile of the kernel can have."""
    reasons = []
    for name, spec in zip(("head_dim", "value_dim"), shapes.caches["kv"], strict=True):
        dim = shapes.attrs[name]
        if dim > 256:
            reasons.append(f"{name} {dim} (takes up to 256)")
        if spec.format == TILED and dim > 128 and dim % 128:
            reasons.append(f"{name} {dim} in {TILED} (takes up to 128 and 256)")
    return tuple(reasons)


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
    attrs={
        **ATTRS,
        "window": number(0),
        # the window begins at the last multiple of itself (Llama 4)
        "chunked": flag(False),
        "softcap": real(None),
        # > 0: scores fall with the distance, by slopes down to 2^-alibi (arXiv 2108.12409)
        "alibi": real(0.0),
    },
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
            entry="day0_kernels.gqa.gathered:gqa_gathered",
            phases=("prefill",),
            formats={"kv": ("bf16", "fp16")},
            attrs={"softcap": (None,), "window": (0,), "alibi": (0.0,), "chunked": (False,)},
            limits=_plain,
            graph_safe=False,
            launches=4,  # of one sequence: keys and values gathered, attention, a copy
        ),
        Impl(
            backend="triton",
            entry="day0_kernels.gqa.attention:gqa_paged",
            formats={"kv": FORMATS},
            attrs={"alibi": (0.0,), "chunked": (False,)},
            limits=paged_limits,
            min_capability=(9, 0),
            parity="gqa/bf16",
            launches=2,  # attention in splits, and their merge
        ),
    ),
)
