"""AltUp: one value to m streams, the later ones projected (kernels/day0_kernels/altup)."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, Shapes, reference


def _out(shapes: Shapes) -> dict[str, TensorSpec]:
    width = shapes.width("x") * (1 + int(shapes.weights["projections"].dims[0]))
    spec = TensorSpec(dims=(shapes.rows("x"), width), format=shapes.inputs["x"].format)
    return {"y": spec}


FAMILY = Family(
    name="altup_expand",
    rowwise=True,
    what="the value, then its projections at its magnitude, side by side",
    inputs=("x",),
    weights=("projections",),
    outputs=("y",),
    infer=_out,
    flops=lambda s, c: 2.0 * s.size("projections"),
    impls=(reference("day0_kernels.altup.reference:altup_expand"),),
)
