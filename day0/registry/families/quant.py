"""Rows to FP8 with a scale for 128 channels: what products of FP8 weights read."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, Impl, Shapes, reference

TILE = 128  # channels of a row that share a scale


def rows_of(shapes: Shapes, slot: str) -> tuple[TensorSpec, TensorSpec]:
    """(codes, scales) of an input's rows."""
    rows, width = shapes.rows(slot), shapes.width(slot)
    return (
        TensorSpec(dims=(rows, width), format="fp8_e4m3"),
        TensorSpec(dims=(rows, -(-width // TILE)), format="fp32"),
    )


FAMILY = Family(
    name="quant",
    rowwise=True,
    what="rows as E4M3 codes with a scale for every 128 channels",
    inputs=("x",),
    outputs=("q", "scale"),
    infer=lambda s: dict(zip(("q", "scale"), rows_of(s, "x"), strict=True)),
    flops=lambda s, c: 4.0 * s.width("x"),
    impls=(
        reference("day0_kernels.quant.reference:quant_tile"),
        Impl(
            backend="triton",
            entry="day0_kernels.quant.quantise:quant_tile",
            min_capability=(9, 0),
            parity="quant/tile-bf16",
        ),
    ),
)
