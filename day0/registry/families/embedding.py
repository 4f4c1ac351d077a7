"""Rows of a table by token id."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, Impl, Shapes, number, real, reference
from day0.registry.ways import Cut, Way


def _ways(shapes: Shapes) -> tuple[Way, ...]:
    rows = int(shapes.weights["table"].dims[0])
    cut = Cut(units=rows, what="rows of the vocabulary", weights=(("table", 0),), first="first")
    return (Way(name="vocabulary", cuts=(cut,), yields="partial", padded=True),)


FAMILY = Family(
    name="embedding",
    what="rows of a table by token id, times a constant; `first`: the table begins at that id, and"
    " the rows of others are zeros",
    inputs=("ids",),
    weights=("table",),
    outputs=("y",),
    attrs={"scale": real(1.0), "first": number(None)},
    infer=lambda s: {"y": TensorSpec(dims=(s.rows("ids"), s.weights["table"].dims[1]))},
    flops=lambda s, c: 0.0,
    share=lambda s, c: {"table": 1 / int(s.weights["table"].dims[0])},
    ways=_ways,
    impls=(
        reference("day0_kernels.basic.reference:embedding"),
        Impl(backend="library", entry="day0_kernels.basic.library:embedding"),
    ),
)
