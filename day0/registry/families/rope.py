"""Rotary position embedding on some dims of every head."""

from day0.registry.family import Attr, Family, Impl, flag, number, real, reference, word
from day0.registry.ways import channels

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
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 3.0 * s.attrs["num_heads"] * s.attrs["dims"],
    ways=lambda s: (
        channels(
            s.width("x"),
            ("x",),
            group=s.width("x") // s.attrs["num_heads"],
            counts=("num_heads",),
        ),
    ),
    impls=(
        reference("day0_kernels.rope.reference:rope"),
        Impl(
            backend="triton",
            entry="day0_kernels.rope.kernel:rope",
            # "dynamic" has other speeds in every row
            attrs={"scaling": ("default", "linear", "yarn", "llama3", "longrope", "proportional")},
            min_capability=(9, 0),
            parity="rope/bf16",
        ),
    ),
)
