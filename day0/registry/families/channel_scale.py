"""x times learned factors: one a channel, or one for all."""

from day0.registry.family import Family, reference
from day0.registry.ways import channels

FAMILY = Family(
    name="channel_scale",
    rowwise=True,
    what="x times a vector of channels, or times one learned number (Gemma 4's layers)",
    inputs=("x",),
    weights=("weight",),
    outputs=("y",),
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 1.0 * s.width("x"),
    ways=lambda s: (
        channels(s.width("x"), ("x",), weights=(("weight", 0),) if s.size("weight") > 1 else ()),
    ),
    impls=(reference("day0_kernels.basic.reference:channel_scale"),),
)
