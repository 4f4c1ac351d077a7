"""A rank's own channels of a value that every rank has."""

from dataclasses import replace

from day0.registry.family import Family, Impl, number, reference

FAMILY = Family(
    name="share",
    rowwise=True,
    what="channels `begin` to `end` of a value",
    inputs=("x",),
    outputs=("y",),
    attrs={"begin": number(), "end": number()},
    infer=lambda s: {
        "y": replace(s.inputs["x"], dims=(s.inputs["x"].dims[0], s.attrs["end"] - s.attrs["begin"]))
    },
    flops=lambda s, c: 0.0,
    impls=(
        reference("day0_kernels.basic.reference:share"),
        Impl(backend="library", entry="day0_kernels.basic.library:share"),
    ),
)
