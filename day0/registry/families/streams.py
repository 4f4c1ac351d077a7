"""One value copied to m residual streams, or their mean."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, Shapes, number, reference, word


def _out(shapes: Shapes) -> dict[str, TensorSpec]:
    count, width = shapes.attrs["num_streams"], shapes.width("x")
    width = width // count if shapes.attrs["rule"] == "mean" else width * count
    spec = TensorSpec(dims=(shapes.rows("x"), width), format=shapes.inputs["x"].format)
    return {"y": spec}


FAMILY = Family(
    name="streams",
    rowwise=True,
    what="copy: one value to m streams, side by side; others: zeros in the first; mean: the"
    " streams' mean",
    inputs=("x",),
    outputs=("y",),
    attrs={"num_streams": number(), "rule": word("copy", "others", "mean")},
    infer=_out,
    flops=lambda s, c: float(s.width("x")),
    impls=(reference("day0_kernels.basic.reference:streams"),),
)
