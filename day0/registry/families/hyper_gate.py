"""Gated hyper-connections (Qwen4-Exp): a low-rank sigmoid mix of normed streams."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, Shapes, flag, number, real, reference


def _out(shapes: Shapes) -> dict[str, TensorSpec]:
    streams = shapes.attrs["num_streams"]
    rows, width = shapes.rows("x"), shapes.width("x") // streams
    specs = {"y": TensorSpec(dims=(rows, width), format=shapes.inputs["x"].format)}
    if "inject" in shapes.weights:
        specs["post"] = TensorSpec(dims=(rows, streams), format="fp32")
    return specs


FAMILY = Family(
    name="hyper_gate",
    rowwise=True,
    what="n = RMS(x) over each of the m streams, its own slice of the weight;"
    " y = mean_j sigmoid(up silu(down n / m))_j n_j; post = 2 sigmoid(inject n / m)",
    inputs=("x",),
    weights=("norm", "down", "up", "inject?"),
    outputs=("y", "post?"),
    attrs={"num_streams": number(), "eps": real(), "zero_centered": flag(False)},
    infer=_out,
    flops=lambda s, c: (
        2.0 * (s.size("down") + s.size("up") + s.size("inject")) + 8.0 * s.width("x")
    ),
    impls=(reference("day0_kernels.hyper_connection.reference:hyper_gate"),),
)
