"""Per-head RMS norm times an activated gate: norm first, gate after, both in fp32."""

from day0.registry.family import Family, Impl, Shapes, number, real, reference, word
from day0.registry.ways import Way, channels


def _ways(shapes: Shapes) -> tuple[Way, ...]:
    group, width = shapes.attrs["group"], shapes.width("x")
    if group == width:
        return ()
    own = (("weight", 0),) if shapes.size("weight") == width else ()
    return (channels(width, ("x", "gate"), group=group, weights=own),)


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
    ways=_ways,
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
