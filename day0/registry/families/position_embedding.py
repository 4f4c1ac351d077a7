"""Learned absolute positions: a row of a table, added to the embedding of the token."""

from day0.registry.family import Family, number, real, reference

FAMILY = Family(
    name="position_embedding",
    what="x plus the table's row at position + offset (OPT starts at row 2)",
    inputs=("x",),
    weights=("table",),
    outputs=("y",),
    attrs={"offset": number(0), "scale": real(1.0)},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 1.0 * s.width("x"),
    share=lambda s, c: {"table": 1 / int(s.weights["table"].dims[0])},
    impls=(reference("day0_kernels.basic.reference:position_embedding"),),
)
