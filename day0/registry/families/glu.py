"""Gated activation of a feed-forward: f(gate) * up, with the published clamps."""

from day0.registry.family import Attr, Family, Impl, real, reference, word
from day0.registry.ways import channels

FUNCTIONS = ("silu", "gelu", "gelu_tanh", "relu2", "relu", "swigluoai", "situ")

# Shared by the families that hold a gated feed-forward inside (experts).
ATTRS: dict[str, Attr] = {
    "function": word(*FUNCTIONS),
    # gate <= limit, |up| <= limit, before the function; None: no clamp
    "limit": real(None),
    # swigluoai: (up + 1) * gate * sigmoid(alpha * gate)
    "alpha": real(None),
    # situ: beta*tanh(gate/beta)*sigmoid(gate) * linear_beta*tanh(up/linear_beta)
    "beta": real(None),
    "linear_beta": real(None),
}

FAMILY = Family(
    name="glu",
    rowwise=True,
    what="function(gate) * up with optional clamps",
    inputs=("gate", "up"),
    outputs=("y",),
    attrs=ATTRS,
    infer=lambda s: {"y": s.inputs["up"]},
    flops=lambda s, c: 6.0 * s.width("up"),
    ways=lambda s: (channels(s.width("up"), ("gate", "up")),),
    impls=(
        reference("day0_kernels.basic.reference:glu"),
        Impl(
            backend="triton",
            entry="day0_kernels.basic.elementwise:glu",
            min_capability=(8, 0),
            parity="basic/glu-bf16",
        ),
    ),
)
