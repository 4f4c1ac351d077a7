"""Layer norm: (x - mean) * rsqrt(var + eps) * w + b."""

from day0.registry.family import Family, Impl, flag, number, real, reference

FAMILY = Family(
    name="layernorm",
    rowwise=True,
    what="layer norm over groups of `group` channels (0: the row); optional weight (as 1 + w if"
    " zero-centred) and bias",
    inputs=("x",),
    weights=("weight?", "bias?"),
    outputs=("y",),
    attrs={"eps": real(), "zero_centered": flag(False), "group": number(0)},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 6.0 * s.width("x"),
    impls=(
        reference("day0_kernels.basic.reference:layernorm"),
        Impl(
            backend="library",
            entry="day0_kernels.basic.library:layernorm",
            attrs={"zero_centered": (False,), "group": (0,)},
            launches=2,
        ),
    ),
)
