"""One elementwise function."""

from day0.registry.family import Family, Impl, reference, word
from day0.registry.ways import channels

FAMILY = Family(
    name="activation",
    rowwise=True,
    what="an elementwise function",
    inputs=("x",),
    outputs=("y",),
    attrs={"function": word("silu", "sigmoid", "gelu", "gelu_tanh", "relu", "relu2", "softplus")},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 4.0 * s.width("x"),
    ways=lambda s: (channels(s.width("x"), ("x",)),),
    impls=(
        reference("day0_kernels.basic.reference:activation"),
        Impl(
            backend="triton",
            entry="day0_kernels.basic.elementwise:activation",
            min_capability=(8, 0),
            parity="basic/silu-bf16",
        ),
    ),
)
