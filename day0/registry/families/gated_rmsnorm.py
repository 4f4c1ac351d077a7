"""Per-head RMS norm times an activated gate: norm first, gate after, both in fp32."""

from day0.registry.family import Family, Impl, number, real, reference, word

FAMILY = Family(
    name="gated_rmsnorm",
    rowwise=True,
    what="RMS norm over groups of channels, times activation(gate)",
    inputs=("x", "gate"),
    weights=("weight",),
    outputs=("y",),
    attrs={"eps": real(), "group": number(restated=True), "activation": word("sigmoid", "silu")},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 8.0 * s.width("x"),
    impls=(
        reference("day0_kernels.gated_rmsnorm.reference:gated_rmsnorm"),
        Impl(
            backend="triton",
            entry="day0_kernels.gated_rmsnorm.kernel:gated_rmsnorm",
            min_capability=(9, 0),
            parity="gated_rmsnorm/bf16",
        ),
    ),
)
