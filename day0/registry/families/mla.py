"""Multi-head latent attention over a cache of latents (arXiv:2405.04434)."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Attr, Context, Family, Shapes, number, real, reference

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
    impls=(reference("day0_kernels.mla.reference:mla"),),
)
