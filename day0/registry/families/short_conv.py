"""Causal depthwise convolution over time with a carried tail."""

from day0.registry.family import Context, Family, Impl, Shapes, number, reference, word
from day0.registry.ways import Way, channels


def _entries(shapes: Shapes, context: Context) -> dict[str, float]:
    """In decode every row reads the whole tail."""
    taps = int(shapes.weights["weight"].dims[2])
    return {"tail": taps - 1} if context.phase == "decode" else {}


def _limits(shapes: Shapes) -> tuple[str, ...]:
    reasons = []
    taps = int(shapes.weights["weight"].dims[2])
    if not 2 <= taps <= 4:
        reasons.append(f"{taps} taps (takes 2 to 4)")
    if "bias" in shapes.weights:
        reasons.append("a bias")
    return tuple(reasons)


def _triton(phase: str, parity: str) -> Impl:
    return Impl(
        backend="triton",
        entry=f"day0_kernels.short_conv.{phase}:short_conv_{phase}",
        phases=(phase,),
        attrs={"dilation": (1,)},
        limits=_limits,
        min_capability=(9, 0),
        parity=parity,
    )


def _ways(shapes: Shapes) -> tuple[Way, ...]:
    own = tuple((slot, 0) for slot in shapes.weights)
    return (channels(shapes.width("x"), ("x",), weights=own, caches=(("tail", 0),)),)


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
    ways=_ways,
    impls=(
        reference("day0_kernels.short_conv.reference:short_conv"),
        _triton("prefill", "short_conv/bf16-ragged"),
        _triton("decode", "short_conv/decode-bf16"),
    ),
)
