"""Convolutions of neighbouring channels as one, with one tail."""

from dataclasses import replace

from day0.registry.families.merged_linear import slices
from day0.registry.families.short_conv import FAMILY as SHORT_CONV
from day0.registry.family import Attr

FAMILY = replace(
    SHORT_CONV,
    name="merged_short_conv",
    what="causal depthwise convolutions of neighbouring channels, `widths` each, then activation",
    outputs=("y*",),
    attrs={**SHORT_CONV.attrs, "widths": Attr(kinds=(tuple,), restated=True)},
    infer=slices,
)
