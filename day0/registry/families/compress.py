"""Entries pooled over consecutive tokens and written when their last token has come."""

from day0.registry.families.rope import TABLE
from day0.registry.family import Attr, Context, Family, Shapes, flag, number, real, reference, word

# A pool that is not rotated has no table.
_OPTIONAL_TABLE = {
    name: Attr(kinds=(*rule.kinds, type(None)), default=None) for name, rule in TABLE.items()
}


def _entries(shapes: Shapes, context: Context) -> dict[str, float]:
    """The tail is read once a pool, by the row that closes it; each row writes itself to it."""
    size, overlap = shapes.attrs["size"], shapes.attrs["overlap"]
    back = 2 * size - 1 if overlap else size - 1
    return {"tail": 1.0 + back / size, "pooled": 1.0 / size}


FAMILY = Family(
    name="compress",
    what="pool `size` consecutive rows from the sequence's start on: the mean, or per channel the"
    " softmax over the rows of gate + position_bias, times x; overlap: rows are [a | b], a pool"
    " is taken over the b halves of its own rows and the a halves of the pool before (the first"
    " pool: b alone), with the halves of position_bias; then norm, rope at the pool's first"
    " position, write; a row that closes a pool may read it",
    inputs=("x", "gate?"),
    weights=("position_bias?", "norm_weight?"),
    caches=("tail", "pooled"),
    outputs=(),
    attrs={
        **_OPTIONAL_TABLE,
        "size": number(),
        "rule": word("softmax", "mean"),
        "overlap": flag(False),
        "norm": word("none", "rms", default="none"),
        "norm_eps": real(None),
        "zero_centered": flag(False),
        "rope_dims": number(0),
        "rope_place": word("first", "last", default="first"),
        "rope_pairing": word("half", "interleaved", "none", default="none"),
    },
    infer=lambda s: {},
    flops=lambda s, c: 8.0 * s.width("x"),
    entries=_entries,
    impls=(reference("day0_kernels.compress.reference:compress"),),
)
