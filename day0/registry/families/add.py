"""y = a * scale_a + b * scale_b."""

from day0.registry.family import Family, Impl, real, reference
from day0.registry.ways import channels

FAMILY = Family(
    name="add",
    rowwise=True,
    what="weighted sum of two values",
    inputs=("a", "b"),
    outputs=("y",),
    attrs={"scale_a": real(1.0), "scale_b": real(1.0)},
    infer=lambda s: {"y": s.inputs["a"]},
    flops=lambda s, c: 1.0 * s.width("a"),
    ways=lambda s: (channels(s.width("a"), ("a", "b")),),
    sums=("a", "b"),
    impls=(
        reference("day0_kernels.basic.reference:add"),
        Impl(backend="library", entry="day0_kernels.basic.library:add", attrs={"scale_a": (1.0,)}),
    ),
)
