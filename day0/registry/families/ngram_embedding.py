"""Hashed n-gram rows of a large table, one row per hash head."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, Shapes, number, reference


def _out(shapes: Shapes) -> dict[str, TensorSpec]:
    width = shapes.attrs["num_heads"] * int(shapes.weights["table"].dims[1])
    return {"y": TensorSpec(dims=(shapes.rows("ids"), width))}


FAMILY = Family(
    name="ngram_embedding",
    what="heads in order of n = 2..max_n, equally many each: row = (xor_{p<n} id[t-p] *"
    " multiplier_p, int64 wrapping) mod head_size (never negative) + head_offset; ids before the"
    " sequence's start (history -1) or before the last reset_id count as reset_id; rows side by"
    " side",
    # ids [T]; history [sequences, max_n - 1]: the ids before the step's first of each sequence
    inputs=("ids", "history"),
    weights=("table", "multipliers", "head_sizes", "head_offsets"),
    whole=("multipliers", "head_sizes", "head_offsets"),
    outputs=("y",),
    attrs={"num_heads": number(), "max_n": number(), "reset_id": number(-1)},
    infer=_out,
    flops=lambda s, c: 0.0,
    share=lambda s, c: {"table": s.attrs["num_heads"] / int(s.weights["table"].dims[0])},
    impls=(reference("day0_kernels.ngram_embedding.reference:ngram_embedding"),),
)
