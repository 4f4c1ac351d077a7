"""Layer norm: (x - mean) * rsqrt(var + eps) * w + b."""

from day0.registry.family import Family, Impl, real, reference

FAMILY = Family(
    name="layernorm",
    rowwise=True,
    what="layer norm with optional weight and bias",
    inputs=("x",),
    weights=("weight?", "bias?"),
    outputs=("y",),
    attrs={"eps": real()},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 6.0 * s.width("x"),
    impls=(
        reference("day0_kernels.basic.reference:layernorm"),
        Impl(backend="library", entry="day0_kernels.basic.library:layernorm", launches=2),
    ),
)
