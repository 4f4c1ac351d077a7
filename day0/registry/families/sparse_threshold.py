"""What lies above a share of a row's values, as a normal distribution has them (Gemma 3n)."""

from day0.registry.family import Family, real, reference

FAMILY = Family(
    name="sparse_threshold",
    rowwise=True,
    what="relu(x - mean - multiplier * standard deviation), both of the row",
    inputs=("x",),
    outputs=("y",),
    attrs={"multiplier": real()},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 6.0 * s.width("x"),
    impls=(reference("day0_kernels.basic.reference:sparse_threshold"),),
)
