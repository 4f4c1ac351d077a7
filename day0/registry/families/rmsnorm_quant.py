"""The RMS norm of a row (of a sum, too) with FP8 rows out, and the norm itself where it is read."""

from day0.ir.tensor import TensorSpec
from day0.registry.families.quant import rows_of
from day0.registry.families.rmsnorm import FAMILY as RMSNORM
from day0.registry.family import Family, Impl, Shapes, reference

MOST = 16384  # channels that one program holds


def _limits(shapes: Shapes) -> tuple[str, ...]:
    width = shapes.width("x")
    return (f"{width} channels (takes at most {MOST})",) if width > MOST else ()


def _outputs(shapes: Shapes) -> dict[str, TensorSpec]:
    codes, scales = rows_of(shapes, "x")
    plain = shapes.inputs["x"]
    return {"q": codes, "q_scale": scales, "y": plain, "residual_out": plain}


FAMILY = Family(
    name="rmsnorm_quant",
    rowwise=True,
    what="RMS norm of x, or of x + residual, as E4M3 rows with a scale for every 128 channels",
    inputs=("x", "residual?"),
    weights=("weight?",),
    outputs=("q", "q_scale", "y?", "residual_out?"),
    attrs={name: RMSNORM.attrs[name] for name in ("eps", "zero_centered", "scale")},
    infer=_outputs,
    flops=lambda s, c: 9.0 * s.width("x"),
    impls=(
        reference("day0_kernels.rmsnorm.reference:rmsnorm_tile"),
        Impl(
            backend="triton",
            entry="day0_kernels.rmsnorm.quantised:rmsnorm_tile",
            limits=_limits,
            min_capability=(9, 0),
            parity="rmsnorm/tile-bf16",
        ),
    ),
)
