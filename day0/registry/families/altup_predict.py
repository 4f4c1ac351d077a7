"""AltUp: all streams predicted from all, before a layer (kernels/day0_kernels/altup)."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Attr, Family, Shapes, number, real, reference

ATTRS: dict[str, Attr] = {"num_streams": number(), "active": number(0), "eps": real()}


def streams_and_active(shapes: Shapes) -> dict[str, TensorSpec]:
    x = shapes.inputs["x"]
    width = shapes.width("x") // shapes.attrs["num_streams"]
    return {"y": TensorSpec(dims=(shapes.rows("x"), width), format=x.format), "streams": x}


def flops(shapes: Shapes, context: object) -> float:
    """Router and coefficients, then m products a channel."""
    return 2.0 * (shapes.size("router") + shapes.size("coefficients")) + 2.0 * (
        shapes.width("x") * shapes.attrs["num_streams"]
    )


FAMILY = Family(
    name="altup_predict",
    rowwise=True,
    what="every stream plus a routed mix of all; y is the active one",
    inputs=("x",),
    weights=("norm", "router", "coefficients"),
    outputs=("y", "streams"),
    attrs=ATTRS,
    infer=streams_and_active,
    flops=flops,
    impls=(reference("day0_kernels.altup.reference:altup_predict"),),
)
