"""One token of a KDA layer between its projections: convolution, recurrence, gated norm."""

from day0.registry.families.kda import FAMILY as KDA
from day0.registry.family import Context, Family, Impl, Shapes, real, reference


def _taps(shapes: Shapes) -> int:
    return int(shapes.weights["conv_weight"].dims[2])


def _flops(shapes: Shapes, context: Context) -> float:
    return KDA.flops(shapes, context) + 2.0 * shapes.size("conv_weight") + 12.0 * shapes.width("x")


def _limits(shapes: Shapes) -> tuple[str, ...]:
    kernel = next(impl for impl in KDA.impls if "decode" in impl.phases and impl.optimised)
    assert kernel.limits is not None
    taps = _taps(shapes)
    more = () if taps in (2, 4) else (f"{taps} taps (takes 2 or 4)",)
    return (*kernel.limits(shapes), *more)


FAMILY = Family(
    name="kda_step",
    what="a KDA layer's convolutions, recurrence and gated norm for one token a sequence",
    inputs=("x", "gate", "beta", "norm_gate"),
    weights=("conv_weight", "a_log", "dt_bias", "norm_weight"),
    caches=("tail", "state"),
    outputs=("o",),
    attrs={**KDA.attrs, "norm_eps": real(1e-5)},
    infer=lambda s: {"o": s.inputs["norm_gate"]},
    flops=_flops,
    entries=lambda s, c: {"tail": _taps(s) - 1, "state": 2.0},
    impls=(
        reference("day0_kernels.kda.reference:kda_decode_fused"),
        Impl(
            backend="triton",
            entry="day0_kernels.kda.decode_fused:kda_decode_fused",
            phases=("decode",),
            formats={"a_log": ("fp32",), "dt_bias": ("fp32",), "state": ("fp32", "bf16")},
            limits=_limits,
            min_capability=(9, 0),
            parity="kda/fused-bf16",
        ),
    ),
)
