"""Channels of several values side by side."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, Impl, reference

FAMILY = Family(
    name="concat",
    rowwise=True,
    what="channels of several values side by side",
    inputs=("x*",),
    outputs=("y",),
    infer=lambda s: {
        "y": TensorSpec(dims=(s.rows("x0"), sum(spec.width for spec in s.inputs.values())))
    },
    flops=lambda s, c: 0.0,
    impls=(
        reference("day0_kernels.basic.reference:concat"),
        Impl(backend="library", entry="day0_kernels.basic.library:concat"),
    ),
)
