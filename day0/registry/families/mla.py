"""Multi-head latent attention over a cache of latents (arXiv:2405.04434)."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Attr, Context, Family, Impl, Shapes, number, real, reference
from day0.registry.ways import Way, heads

ATTRS: dict[str, Attr] = {
    "num_heads": number(),
    "nope_dim": number(),
    "rope_dim": number(),
    "value_dim": number(),
    "latent_dim": number(),
    "scale": real(),
}


def per_entry(shapes: Shapes) -> float:
    """Operations per query row and cache entry, absorbed form."""
    latent, rope = shapes.attrs["latent_dim"], shapes.attrs["rope_dim"]
    return 2.0 * shapes.attrs["num_heads"] * (2 * latent + rope)


def absorbing(shapes: Shapes) -> float:
    """Operations per row for q W_uk and (p c) W_uv."""
    return 2.0 * (shapes.size("w_uk") + shapes.size("w_uv"))


def out(shapes: Shapes) -> dict[str, TensorSpec]:
    """[rows, num_heads * value_dim]."""
    width = shapes.attrs["num_heads"] * shapes.attrs["value_dim"]
    return {"y": TensorSpec(dims=(shapes.rows("q"), width))}


def _seen(shapes: Shapes, context: Context) -> float:
    window = shapes.attrs["window"]
    return min(context.seen, window) if window else context.seen


PLAIN = ("bf16", "fp16", "fp32")
TILED = "fp8_t128"
# What contiguous history is made of: the runtime dequantises it.
HISTORY = (*PLAIN, TILED, "mxfp8")


def _absorbable(shapes: Shapes) -> tuple[str, ...]:
    """Sizes that a tile of the kernel can have."""
    latent, rope = shapes.attrs["latent_dim"], shapes.attrs["rope_dim"]
    reasons = []
    if latent & (latent - 1) or not 16 <= latent <= 512:
        reasons.append(f"latent_dim {latent} (takes powers of two from 16 to 512)")
    if rope and (rope & (rope - 1) or not 16 <= rope <= 128):
        reasons.append(f"rope_dim {rope} (takes 0 and powers of two from 16 to 128)")
    if latent + rope > 576:
        reasons.append(f"latent_dim + rope_dim {latent + rope} (takes up to 576)")
    if shapes.caches["latent"][0].format == TILED and latent % 128:
        reasons.append(f"latent_dim {latent} in {TILED} (takes multiples of 128)")
    return tuple(reasons)


def _expandable(shapes: Shapes) -> tuple[str, ...]:
    """What torch's attention has, with values as narrow as the keys."""
    reasons = []
    if "sink" in shapes.weights:
        reasons.append("an attention sink (scaled_dot_product_attention has none)")
    if shapes.attrs["value_dim"] > shapes.attrs["nope_dim"] + shapes.attrs["rope_dim"]:
        reasons.append(f"value_dim {shapes.attrs['value_dim']} (takes up to the keys' width)")
    return tuple(reasons)


def paged(*phases: str, entry: str, parity: str) -> Impl:
    """The absorbed kernel over pages, which selected entries share."""
    return Impl(
        backend="triton",
        entry=entry,
        phases=phases,
        formats={"latent": (*PLAIN, TILED)},
        limits=_absorbable,
        min_capability=(9, 0),
        parity=parity,
        launches=4,  # to the latents, attention and its merge, and back
    )


def ways(shapes: Shapes) -> tuple[Way, ...]:
    """Heads; the latents belong to all of them and stay whole."""
    return (heads(shapes.attrs, ("q",), weights=tuple((slot, 0) for slot in shapes.weights)),)


FAMILY = Family(
    name="mla",
    what="causal softmax attention; keys and values are W_uk c and W_uv c of a cached latent c",
    inputs=("q",),
    weights=("w_uk", "w_uv", "sink?"),
    caches=("latent",),
    outputs=("y",),
    attrs={**ATTRS, "window": number(0)},
    infer=out,
    flops=lambda s, c: absorbing(s) + per_entry(s) * _seen(s, c),
    entries=lambda s, c: {"latent": _seen(s, c)},
    ways=ways,
    impls=(
        reference("day0_kernels.mla.reference:mla"),
        paged("decode", "verify", entry="day0_kernels.mla.decode:mla_paged", parity="mla/bf16"),
        Impl(
            backend="library",
            entry="day0_kernels.mla.expanded:mla_expanded",
            phases=("prefill",),
            formats={"latent": HISTORY},
            attrs={"window": (0,)},
            limits=_expandable,
            graph_safe=False,
            launches=8,  # of one sequence: two products, their layout, attention, two copies
        ),
    ),
)
