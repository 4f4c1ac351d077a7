"""AltUp: all streams corrected by what a layer made of one (kernels/day0_kernels/altup)."""

from day0.registry.families.altup_predict import ATTRS, flops, streams_and_active
from day0.registry.family import Family, reference

FAMILY = Family(
    name="altup_correct",
    rowwise=True,
    what="every prediction plus its share of the layer's change; y is the active one",
    inputs=("x", "update"),
    weights=("norm", "router", "coefficients"),
    outputs=("y", "streams"),
    attrs=ATTRS,
    infer=streams_and_active,
    flops=flops,
    impls=(reference("day0_kernels.altup.reference:altup_correct"),),
)
