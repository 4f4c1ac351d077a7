"""x times a function of the row's position, per head."""

from day0.registry.family import Family, Shapes, number, real, reference, word
from day0.registry.ways import Way, channels


def _ways(shapes: Shapes) -> tuple[Way, ...]:
    count = shapes.attrs["num_heads"]
    own = tuple((slot, 0) for slot, spec in shapes.weights.items() if spec.width == count > 1)
    width = shapes.width("x")
    return (channels(width, ("x",), group=width // count, weights=own, counts=("num_heads",)),)


FAMILY = Family(
    name="position_scale",
    what="each head times s*ln(position+1)+b (ssmax), or"
    " 1+beta*ln(1+floor((position+shift)/original)) (floor_log; Llama 4), or"
    " (1+(position+1)/original)^beta (power; Beam)",
    inputs=("x",),
    weights=("scale?", "bias?"),
    outputs=("y",),
    attrs={
        "rule": word("ssmax", "floor_log", "power"),
        "num_heads": number(),
        "beta": real(None),
        "original": number(0),
        "shift": number(0),
    },
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 2.0 * s.width("x"),
    ways=_ways,
    impls=(reference("day0_kernels.basic.reference:position_scale"),),
)
