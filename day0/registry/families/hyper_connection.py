"""Hyper-connections, reading: a block's input from m residual streams, and how to write back."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, Impl, Shapes, number, real, reference, word


def _out(shapes: Shapes) -> dict[str, TensorSpec]:
    streams, variant = shapes.attrs["num_streams"], shapes.attrs["variant"]
    rows, width = shapes.rows("x"), shapes.width("x") // streams
    expected = {"sinkhorn": (2 + streams) * streams, "identity": 2 * streams, "head": streams}
    if shapes.weights["fn"].dims != (expected[variant], width * streams):
        raise ValueError(
            f"hyper_connection {variant}: fn has dims {shapes.weights['fn'].dims}, "
            f"{streams} streams of {width} take {(expected[variant], width * streams)}"
        )
    specs = {"y": TensorSpec(dims=(rows, width), format=shapes.inputs["x"].format)}
    if variant != "head":
        specs["post"] = TensorSpec(dims=(rows, streams), format="fp32")
    if variant == "sinkhorn":
        specs["mix"] = TensorSpec(dims=(rows, streams * streams), format="fp32")
    return specs


def _flops(shapes: Shapes, context: object) -> float:
    mixing = 6.0 * shapes.attrs["iterations"] * shapes.attrs["num_streams"] ** 2
    return 2.0 * shapes.size("fn") + 6.0 * shapes.width("x") + mixing


def few_streams(shapes: Shapes) -> tuple[str, ...]:
    """A token's mix lies in one program's registers."""
    count = shapes.attrs["num_streams"]
    return () if 2 <= count <= 4 else (f"{count} streams (takes 2 to 4)",)


FAMILY = Family(
    name="hyper_connection",
    rowwise=True,
    what="u = fn RMS(x) (no norm weight, norm_eps, fp32), rows [pre | post | mix], each times its"
    " scale plus base; pre = sigmoid + eps, y = sum_j pre_j x_j; sinkhorn: post = magnitude"
    " sigmoid, mix = softmax over its last dim + eps, columns normalised (sum over dim -2, + eps),"
    " then iterations-1 times rows and columns; identity: post = magnitude sigmoid + eps, no mix;"
    " head: y only",
    inputs=("x",),
    weights=("fn", "base", "scale"),
    outputs=("y", "post?", "mix?"),
    attrs={
        "num_streams": number(),
        "variant": word("sinkhorn", "identity", "head"),
        "eps": real(),
        "norm_eps": real(),
        "iterations": number(0),
        "magnitude": real(2.0),
    },
    infer=_out,
    flops=_flops,
    impls=(
        reference("day0_kernels.hyper_connection.reference:hyper_connection"),
        Impl(
            backend="triton",
            entry="day0_kernels.hyper_connection.read:hyper_connection",
            launches=2,
            formats=dict.fromkeys(("fn", "base", "scale"), ("fp32",)),
            limits=few_streams,
            min_capability=(9, 0),
            parity="hyper_connection/sinkhorn-bf16",
        ),
    ),
)
