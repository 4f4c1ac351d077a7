"""Causal depthwise convolution over time with a carried tail."""

from day0.registry.family import Context, Family, Shapes, number, word


def _entries(shapes: Shapes, context: Context) -> dict[str, float]:
    """In decode every row reads the whole tail."""
    taps = int(shapes.weights["weight"].dims[2])
    return {"tail": taps - 1} if context.phase == "decode" else {}


FAMILY = Family(
    name="short_conv",
    what="causal depthwise convolution, kernel [channels, 1, K], then activation",
    inputs=("x",),
    weights=("weight", "bias?"),
    caches=("tail",),
    outputs=("y",),
    attrs={"activation": word("silu", "none"), "dilation": number(1)},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 2.0 * s.size("weight") + 4.0 * s.width("x"),
    entries=_entries,
)
