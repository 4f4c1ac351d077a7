"""The chosen experts' gated feed-forwards, weighted and summed."""

from day0.registry.families.glu import ATTRS
from day0.registry.family import Context, Family, Shapes, number


def _share(shapes: Shapes, context: Context) -> dict[str, float]:
    part = shapes.attrs["top_k"] / shapes.attrs["num_experts"]
    return {slot: part for slot in shapes.weights}


def _flops(shapes: Shapes, context: Context) -> float:
    per_expert = sum(shapes.size(slot) for slot in ("gate", "up", "down"))
    return 2.0 * per_expert * shapes.attrs["top_k"] / shapes.attrs["num_experts"]


FAMILY = Family(
    name="experts",
    what="sum over the chosen experts of weight * down(f(gate x) * up x)",
    inputs=("x", "experts", "weights"),
    weights=("gate", "up", "down", "gate_bias?", "up_bias?", "down_bias?"),
    outputs=("y",),
    attrs={**ATTRS, "num_experts": number(), "top_k": number()},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=_flops,
    share=_share,
)
