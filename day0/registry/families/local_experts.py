"""Numbers of chosen experts, counted from a rank's first one: others are elsewhere."""

from day0.registry.family import Family, Impl, number, reference

FAMILY = Family(
    name="local_experts",
    rowwise=True,
    what="chosen experts less `first`: below 0 and beyond the rank's count they are elsewhere",
    inputs=("experts",),
    outputs=("y",),
    attrs={"first": number()},
    infer=lambda s: {"y": s.inputs["experts"]},
    flops=lambda s, c: 0.0,
    impls=(
        reference("day0_kernels.basic.reference:local_experts"),
        Impl(backend="library", entry="day0_kernels.basic.library:local_experts"),
    ),
)
