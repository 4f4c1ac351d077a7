"""The chosen experts' gated feed-forwards, weighted and summed."""

from day0.registry.families.glu import ATTRS
from day0.registry.family import Context, Family, Impl, Shapes, flag, number, reference
from day0.registry.ways import Cut, Way


def distinct(num_experts: int, top_k: int, rows: int, local: int | None = None) -> float:
    """Experts that `rows` rows are expected to reach, each choosing `top_k` of all evenly.

    E (1 - (1 - k/E)^T), at most min(T k, E) (field case 75). `local`: how many of them are counted,
    as those of one expert-parallel rank; a row's chance to reach one stays k / E of the whole pool.
    """
    reached = 1.0 - (1.0 - top_k / num_experts) ** rows
    return (num_experts if local is None else local) * reached


def _share(shapes: Shapes, context: Context) -> dict[str, float]:
    experts = shapes.attrs["num_experts"]
    part = distinct(experts, shapes.attrs["top_k"], context.rows) / experts
    return {slot: part for slot in shapes.weights}  # noqa: C420


def _flops(shapes: Shapes, context: Context) -> float:
    per_expert = sum(shapes.size(slot) for slot in ("gate", "up", "down"))
    return 2.0 * per_expert * shapes.attrs["top_k"] / shapes.attrs["num_experts"]


_FORMATS = ("bf16", "fp16", "fp32", "fp8_b128")


def _limits(shapes: Shapes) -> tuple[str, ...]:
    """Rows of both matrices are read in pieces of 16 bytes."""
    _, inner, width = shapes.weights["gate"].dims
    elements = 16 if shapes.weights["gate"].format.startswith("fp8") else 8
    reasons = tuple(
        f"{name} {size} (takes multiples of {elements})"
        for name, size in (("width", int(width)), ("intermediate", int(inner)))
        if size % elements
    )
    runs = {shapes.weights[slot].format for slot in ("gate", "up", "down")}
    mixed = len(runs) > 1 and any(name.startswith("fp8") for name in runs)
    return (*reasons, f"matrices in {' and '.join(sorted(runs))} (takes one)") if mixed else reasons


def _ways(shapes: Shapes) -> tuple[Way, ...]:
    """Every expert cut along its inner channels, or whole experts dealt out, at most one more on
    some ranks than on others."""
    inner = int(shapes.weights["gate"].dims[1])
    dims = {"gate": 1, "up": 1, "down": 2, "gate_bias": 1, "up_bias": 1}
    own = tuple((slot, dim) for slot, dim in dims.items() if slot in shapes.weights)
    channels = Cut(units=inner, what="inner channels", weights=own)
    experts = Cut(
        units=shapes.attrs["num_experts"],
        what="experts",
        weights=tuple((slot, 0) for slot in shapes.weights),
    )
    return (
        Way(name="channels", cuts=(channels,), yields="partial"),
        Way(name="experts", cuts=(experts,), yields="partial", axis="ep", padded=True),
    )


FAMILY = Family(
    name="experts",
    rowwise=True,
    what="sum over the chosen experts of weight * down(f(gate x) * up x)",
    # x_scale: x is FP8, with a scale for 128 channels of a row
    inputs=("x", "experts", "weights", "x_scale?"),
    weights=("gate", "up", "down", "gate_bias?", "up_bias?", "down_bias?"),
    outputs=("y",),
    attrs={
        **ATTRS,
        "num_experts": number(),
        "top_k": number(),
        # the weight is a factor of the input (Llama 4), not of the output
        "weigh_input": flag(False),
    },
    infer=lambda s: {"y": s.inputs["x"]},
    flops=_flops,
    share=_share,
    ways=_ways,
    impls=(
        reference("day0_kernels.experts.reference:experts"),
        Impl(
            backend="triton",
            entry="day0_kernels.experts.whole:experts",
            formats=dict.fromkeys(("gate", "up", "down"), _FORMATS),
            attrs={"weigh_input": (False,)},
            limits=_limits,
            min_capability=(9, 0),
            parity="experts/bf16-T50",
            # sort, (quantise,) gate and up, down, sum
            launches=lambda s: 5 if s.weights["gate"].format.startswith("fp8") else 4,
        ),
    ),
)
