"""RMS norm, in fp32: x * rsqrt(mean x^2 + eps) * w, over groups of channels."""

from day0.registry.family import Family, Impl, flag, number, real, reference

FAMILY = Family(
    name="rmsnorm",
    rowwise=True,
    what="RMS norm over groups of `group` channels (0: the row); weight as 1 + w if zero-centred",
    inputs=("x",),
    weights=("weight?",),
    outputs=("y",),
    attrs={"eps": real(), "group": number(0), "zero_centered": flag(False), "scale": real(1.0)},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 4.0 * s.width("x"),
    impls=(
        reference("day0_kernels.basic.reference:rmsnorm"),
        Impl(
            backend="library",
            entry="torch.nn.functional:rms_norm",
            attrs={"zero_centered": (False,), "scale": (1.0,)},
        ),
    ),
)
