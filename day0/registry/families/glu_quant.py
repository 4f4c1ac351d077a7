"""The gated activation of a feed-forward with FP8 rows out."""

from day0.registry.families.glu import ATTRS
from day0.registry.families.quant import rows_of
from day0.registry.family import Family, Impl, reference

FAMILY = Family(
    name="glu_quant",
    rowwise=True,
    what="function(gate) * up as E4M3 rows with a scale for every 128 channels",
    inputs=("gate", "up"),
    outputs=("q", "q_scale"),
    attrs=ATTRS,
    infer=lambda s: dict(zip(("q", "q_scale"), rows_of(s, "up"), strict=True)),
    flops=lambda s, c: 10.0 * s.width("up"),
    impls=(
        reference("day0_kernels.basic.reference:glu_tile"),
        Impl(
            backend="triton",
            entry="day0_kernels.basic.quantised:glu_tile",
            min_capability=(9, 0),
            parity="basic/tile-bf16",
        ),
    ),
)
