"""Latent attention over the selected tokens only."""

from day0.registry.families.mla import ATTRS, absorbing, out, paged, per_entry, ways
from day0.registry.family import Context, Family, Shapes, number, reference


def _selected(shapes: Shapes, context: Context) -> float:
    return min(context.seen, shapes.attrs["num_selected"])


FAMILY = Family(
    name="sparse_mla",
    what="latent attention restricted to the entries named by `selected` (-1: none)",
    inputs=("q", "selected"),
    weights=("w_uk", "w_uv", "sink?"),
    caches=("latent",),
    outputs=("y",),
    attrs={**ATTRS, "num_selected": number()},
    infer=out,
    flops=lambda s, c: absorbing(s) + per_entry(s) * _selected(s, c),
    entries=lambda s, c: {"latent": _selected(s, c)},
    ways=ways,
    impls=(
        reference("day0_kernels.sparse_mla.reference:sparse_mla"),
        paged(
            "prefill",
            "decode",
            entry="day0_kernels.sparse_mla.attention:sparse_mla_paged",
            parity="sparse_mla/bf16",
        ),
    ),
)
