"""Phase 1 of attention residuals: all queries of a block over the blocks before it."""

from day0.ir.tensor import TensorSpec
from day0.registry.families.attn_residual import FAMILY as ATTN_RESIDUAL
from day0.registry.family import Family, Impl, Shapes, reference

MOST = 16  # sources in the registers of one program


def _outputs(shapes: Shapes) -> dict[str, TensorSpec]:
    """A mixed row for every query side by side, and the weight of each in the final sum."""
    rows, queries = shapes.rows("x0"), len(shapes.weights)
    plain = shapes.inputs["x0"].format
    return {
        "mixed": TensorSpec(dims=(rows, queries * shapes.width("x0")), format=plain),
        "lse": TensorSpec(dims=(rows, queries), format="fp32"),
    }


def _limits(shapes: Shapes) -> tuple[str, ...]:
    width, sources = shapes.width("x0"), len(shapes.inputs)
    reasons = (
        (width > 8192, f"width {width:,} (takes up to 8,192)"),
        (sources > MOST, f"{sources} sources (takes up to {MOST})"),
    )
    return tuple(reason for wrong, reason in reasons if wrong)


FAMILY = Family(
    name="attn_residual_blocks",
    rowwise=True,
    what="for every query of a block the softmax over stored blocks, and the log of its sum",
    inputs=("x*",),
    weights=("query*",),
    outputs=("mixed", "lse"),
    attrs=ATTN_RESIDUAL.attrs,
    infer=_outputs,
    flops=lambda s, c: 4.0 * (1 + len(s.weights)) * len(s.inputs) * s.width("x0"),
    impls=(
        reference("day0_kernels.attn_residual.reference:attn_residual_blocks"),
        Impl(
            backend="triton",
            entry="day0_kernels.attn_residual.two_phase:attn_residual_blocks",
            limits=_limits,
            min_capability=(9, 0),
            parity="attn_residual/blocks-bf16",
        ),
    ),
)
