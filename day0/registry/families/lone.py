"""What every rank has and one alone adds to a sum: the value there, zeros elsewhere."""

from day0.registry.family import Family, Impl, flag, reference

FAMILY = Family(
    name="lone",
    rowwise=True,
    what="the value where `keep`, zeros elsewhere: one rank adds it to a sum over all",
    inputs=("x",),
    outputs=("y",),
    attrs={"keep": flag()},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 0.0,
    impls=(
        reference("day0_kernels.basic.reference:lone"),
        Impl(backend="library", entry="day0_kernels.basic.library:lone"),
    ),
)
