"""Rows of a table by token id."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, Impl, real, reference

FAMILY = Family(
    name="embedding",
    what="rows of a table by token id, times a constant",
    inputs=("ids",),
    weights=("table",),
    outputs=("y",),
    attrs={"scale": real(1.0)},
    infer=lambda s: {"y": TensorSpec(dims=(s.rows("ids"), s.weights["table"].dims[1]))},
    flops=lambda s, c: 0.0,
    share=lambda s, c: {"table": 1 / int(s.weights["table"].dims[0])},
    impls=(
        reference("day0_kernels.basic.reference:embedding"),
        Impl(backend="library", entry="day0_kernels.basic.library:embedding"),
    ),
)
