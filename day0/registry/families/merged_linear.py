"""Several products of one input as one: the weights stacked, the results side by side."""

from day0.ir.tensor import TensorSpec
from day0.registry.families.linear import PLAIN, narrow
from day0.registry.family import Attr, Family, Impl, Shapes, reference


def slices(shapes: Shapes) -> dict[str, TensorSpec]:
    """y0, y1, ... of these `widths`."""
    rows = shapes.rows("x")
    return {f"y{n}": TensorSpec(dims=(rows, w)) for n, w in enumerate(shapes.attrs["widths"])}


FAMILY = Family(
    name="merged_linear",
    rowwise=True,
    what="matrix products of one input, `widths` columns each, with stacked weights",
    inputs=("x", "x_scale?"),
    weights=("weight", "bias?"),
    outputs=("y*",),
    attrs={"widths": Attr(kinds=(tuple,), restated=True)},
    infer=slices,
    flops=lambda s, c: 2.0 * s.size("weight"),
    impls=(
        reference("day0_kernels.basic.reference:linear"),
        Impl(
            backend="library",
            entry="day0_kernels.basic.library:linear",
            formats={"weight": PLAIN},
        ),
        narrow(),
    ),
)
