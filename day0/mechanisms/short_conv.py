"""Causal depthwise convolution over time, used inside other mixers (and by LFM2 as one)."""

from day0.ir.tensor import TensorSpec
from day0.ir.weight import Expr, dims_of
from day0.mechanisms.builder import Builder


def short_conv(
    b: Builder,
    ident: str,
    x: str,
    source: Expr,
    *,
    activation: str = "silu",
    dilation: int = 1,
    bias: Expr | None = None,
) -> str:
    """`source` is [channels, 1, K]; the last (K - 1) * dilation inputs are carried over."""
    channels, _, size = dims_of(source)
    weights = {"weight": b.weight(ident, source, role="conv")}
    if bias is not None:
        weights["bias"] = b.weight(f"{ident}.bias", bias, role="conv")
    tail = b.cache(
        f"{ident}.tail",
        growth="window",
        span=(size - 1) * dilation,
        role="conv",
        slotted=True,
        parts=(("tail", TensorSpec(dims=(channels,), format=b.plain)),),
    )
    return b.op(
        "short_conv",
        ident,
        {"x": x},
        weights,
        {"tail": (tail, "rw")},
        activation=activation,
        dilation=dilation,
    )["y"]
