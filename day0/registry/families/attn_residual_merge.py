"""Phase 2 of attention residuals: one query of a block with the running sum, and the norm after."""

from day0.registry.families.attn_residual import FAMILY as ATTN_RESIDUAL
from day0.registry.family import Family, Impl, Shapes, number, real, reference


def _limits(shapes: Shapes) -> tuple[str, ...]:
    width = shapes.width("x")
    return () if width <= 8192 else (f"width {width:,} (takes up to 8,192)",)


FAMILY = Family(
    name="attn_residual_merge",
    rowwise=True,
    what="what phase 1 mixed and the running sum (x, or x + residual), and their RMS norm",
    inputs=("x", "mixed", "lse", "residual?"),
    weights=("query", "norm_weight?"),
    outputs=("y", "residual_out?"),
    attrs={**ATTN_RESIDUAL.attrs, "number": number(), "norm_eps": real(0.0)},
    infer=lambda s: {"y": s.inputs["x"], "residual_out": s.inputs["x"]},
    flops=lambda s, c: 14.0 * s.width("x"),
    impls=(
        reference("day0_kernels.attn_residual.reference:attn_residual_merge"),
        Impl(
            backend="triton",
            entry="day0_kernels.attn_residual.two_phase:attn_residual_merge",
            limits=_limits,
            min_capability=(9, 0),
            parity="attn_residual/merge-bf16",
        ),
    ),
)
