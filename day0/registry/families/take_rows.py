"""Rows of a value: the ones of another Rows (the last token of each sequence)."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Attr, Family, Impl, reference

FAMILY = Family(
    name="take_rows",
    what="the rows that belong to another Rows",
    inputs=("x",),
    outputs=("y",),
    attrs={"rows": Attr(kinds=(str,))},
    infer=lambda s: {"y": TensorSpec(dims=(s.attrs["rows"], *s.inputs["x"].dims[1:]))},
    flops=lambda s, c: 0.0,
    impls=(
        reference("day0_kernels.basic.reference:take_rows"),
        Impl(backend="library", entry="torch:index_select"),
    ),
)
