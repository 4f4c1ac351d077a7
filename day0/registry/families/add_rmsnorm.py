"""x + residual and the RMS norm of the sum."""

from day0.registry.families.rmsnorm import FAMILY as RMSNORM
from day0.registry.family import Family, Impl, reference

FAMILY = Family(
    name="add_rmsnorm",
    rowwise=True,
    what="the sum of two values, and its RMS norm",
    inputs=("x", "residual"),
    weights=("weight?",),
    outputs=("y", "residual_out"),
    attrs=RMSNORM.attrs,
    infer=lambda s: {"y": s.inputs["x"], "residual_out": s.inputs["x"]},
    flops=lambda s, c: 5.0 * s.width("x"),
    impls=(
        reference("day0_kernels.rmsnorm.reference:add_rmsnorm"),
        *(
            Impl(
                backend="triton",
                entry="day0_kernels.rmsnorm.kernel:add_rmsnorm",
                limits=impl.limits,
                min_capability=impl.min_capability,
                parity="rmsnorm/add-bf16",
            )
            for impl in RMSNORM.impls
            if impl.backend == "triton"
        ),
    ),
)
