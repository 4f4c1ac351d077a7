"""y = cap * tanh(x / cap), or a constant factor on logits."""

from day0.registry.family import Family, Impl, real, reference
from day0.registry.ways import channels

FAMILY = Family(
    name="softcap",
    rowwise=True,
    what="scale, then cap * tanh(x / cap) where cap is given",
    inputs=("x",),
    outputs=("y",),
    attrs={"cap": real(None), "scale": real(1.0)},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 4.0 * s.width("x"),
    ways=lambda s: (channels(s.width("x"), ("x",)),),
    impls=(
        reference("day0_kernels.basic.reference:softcap"),
        Impl(
            backend="triton",
            entry="day0_kernels.basic.elementwise:softcap",
            min_capability=(8, 0),
            parity="basic/softcap-bf16",
        ),
    ),
)
