"""Bounds on every element."""

from day0.registry.family import Family, real, reference
from day0.registry.ways import channels

FAMILY = Family(
    name="clamp",
    rowwise=True,
    what="x within -limit and limit (clip_qkv of OLMo, DBRX and MPT)",
    inputs=("x",),
    outputs=("y",),
    attrs={"limit": real()},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 2.0 * s.width("x"),
    ways=lambda s: (channels(s.width("x"), ("x",)),),
    impls=(reference("day0_kernels.basic.reference:clamp"),),
)
