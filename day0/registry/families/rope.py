"""Rotary position embedding on some dims of every head."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import (
    Attr,
    Family,
    IllegalAttribute,
    Shapes,
    flag,
    number,
    real,
    reference,
    word,
)

# Everything a rotary table depends on; families that rotate inside share it.
TABLE: dict[str, Attr] = {
    "theta": real(),
    "scaling": word(
        "default", "linear", "dynamic", "yarn", "llama3", "longrope", "proportional",
        default="default",
    ),
    # the scaling's own numbers, sorted (name, value) pairs as the config states them
    "scaling_args": Attr(kinds=(tuple,), default=()),
}  # fmt: skip


def _turned(shapes: Shapes) -> dict[str, TensorSpec]:
    if shapes.attrs["dims"] % 2:
        raise IllegalAttribute(
            f"rope attribute dims={shapes.attrs['dims']!r} must be even: channels turn in pairs",
            hint="state the fact behind it: day0 analyze MODEL --facts FILE",
        )
    return {"y": shapes.inputs["x"]}


FAMILY = Family(
    name="rope",
    what="rotary embedding of `dims` channels of each head, at the row's position",
    inputs=("x",),
    weights=("log_frequency?",),
    outputs=("y",),
    attrs={
        **TABLE,
        "num_heads": number(),
        "dims": number(),
        "place": word("first", "last", default="first"),
        "pairing": word("half", "interleaved"),
        "inverse": flag(False),
    },
    infer=_turned,
    flops=lambda s, c: 3.0 * s.attrs["num_heads"] * s.attrs["dims"],
    impls=(reference("day0_kernels.rope.reference:rope"),),
)
