"""AltUp: m streams back to one value (kernels/day0_kernels/altup)."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, Shapes, number, reference


def _out(shapes: Shapes) -> dict[str, TensorSpec]:
    width = shapes.width("x") // shapes.attrs["num_streams"]
    spec = TensorSpec(dims=(shapes.rows("x"), width), format=shapes.inputs["x"].format)
    return {"y": spec}


FAMILY = Family(
    name="altup_merge",
    rowwise=True,
    what="the mean of the first stream and the others' projections at its magnitude",
    inputs=("x",),
    weights=("projections",),
    outputs=("y",),
    attrs={"num_streams": number()},
    infer=_out,
    flops=lambda s, c: 2.0 * s.size("projections"),
    impls=(reference("day0_kernels.altup.reference:altup_merge"),),
)
