"""RMS norm, in fp32: x * rsqrt(mean x^2 + eps) * w, over groups of channels."""

from day0.registry.family import Family, Impl, Shapes, flag, number, real, reference
from day0.registry.ways import Way, channels

_MOST = 32768  # channels that one program holds


def _limits(shapes: Shapes) -> tuple[str, ...]:
    width = shapes.attrs["group"] or shapes.width("x")
    return (f"{width} channels in a group (takes at most {_MOST})",) if width > _MOST else ()


def _ways(shapes: Shapes) -> tuple[Way, ...]:
    """Norms of heads are cut between heads; a norm of the row needs the row."""
    group, width = shapes.attrs["group"], shapes.width("x")
    if not group:
        return ()
    own = (("weight", 0),) if shapes.size("weight") == width > group else ()
    return (channels(width, ("x",), group=group, weights=own),)


FAMILY = Family(
    name="rmsnorm",
    rowwise=True,
    what="RMS norm over groups of `group` channels (0: the row); weight as 1 + w if zero-centred",
    inputs=("x",),
    weights=("weight?",),
    outputs=("y",),
    attrs={"eps": real(), "group": number(0), "zero_centered": flag(False), "scale": real(1.0)},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 4.0 * s.width("x"),
    ways=_ways,
    impls=(
        reference("day0_kernels.basic.reference:rmsnorm"),
        Impl(
            backend="triton",
            entry="day0_kernels.rmsnorm.kernel:rmsnorm",
            formats={"weight": ("fp32", "bf16", "fp16")},
            limits=_limits,
            min_capability=(9, 0),
            parity="rmsnorm/bf16",
        ),
        Impl(
            backend="library",
            entry="torch.nn.functional:rms_norm",
            attrs={"zero_centered": (False,), "scale": (1.0,)},
        ),
    ),
)
