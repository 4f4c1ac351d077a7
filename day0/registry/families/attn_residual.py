"""Attention residuals: a softmax over residual blocks by a learned query (arXiv:2603.15031)."""

from day0.registry.family import Family, Impl, Shapes, flag, real, reference


def _sources(shapes: Shapes) -> int:
    return len(shapes.inputs)


def _limits(shapes: Shapes) -> tuple[str, ...]:
    """A token's row lies in the registers of one program."""
    width = shapes.width("x0")
    return () if width <= 8192 else (f"width {width:,} (takes up to 8,192)",)


FAMILY = Family(
    name="attn_residual",
    rowwise=True,
    what="softmax over sources of query . RMSNorm(source), weighted sum of the sources",
    inputs=("x*",),
    weights=("query",),
    outputs=("y",),
    attrs={"eps": real(), "scale": real(1.0), "normed_values": flag(False)},
    infer=lambda s: {"y": s.inputs["x0"]},
    flops=lambda s, c: 6.0 * _sources(s) * s.width("x0"),
    impls=(
        reference("day0_kernels.attn_residual.reference:attn_residual"),
        Impl(
            backend="triton",
            entry="day0_kernels.attn_residual.mix:attn_residual",
            limits=_limits,
            min_capability=(9, 0),
            parity="attn_residual/bf16-many",
        ),
    ),
)
