"""y = x * activation(g), elementwise or one g per head."""

from day0.registry.family import Family, Impl, Shapes, number, reference, word
from day0.registry.ways import Way, channels


def _ways(shapes: Shapes) -> tuple[Way, ...]:
    width, count = shapes.width("x"), shapes.attrs["num_heads"]
    if "bias" in shapes.weights:
        return ()
    if count == 1:  # one number for the whole row
        return (channels(width, ("x",)),)
    if not count:
        return (channels(width, ("x", "gate")),)
    return (channels(width, ("x", "gate"), group=width // count, counts=("num_heads",)),)


FAMILY = Family(
    name="gate",
    rowwise=True,
    what="x times activation(gate + bias of a head); num_heads > 0: one gate value for each head's"
    " channels",
    inputs=("x", "gate"),
    weights=("bias?",),
    outputs=("y",),
    attrs={"activation": word("sigmoid", "silu", "softplus", "none"), "num_heads": number(0)},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 4.0 * s.width("x"),
    ways=_ways,
    sums=("x",),
    impls=(
        reference("day0_kernels.basic.reference:gate"),
        Impl(
            backend="triton",
            entry="day0_kernels.basic.elementwise:gate",
            limits=lambda s: ("a bias (takes none)",) if "bias" in s.weights else (),
            min_capability=(8, 0),
            parity="basic/gate-bf16",
        ),
    ),
)
