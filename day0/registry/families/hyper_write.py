"""Hyper-connections, writing: the block's output spread over the streams, the streams mixed."""

from day0.registry.families.hyper_connection import few_streams
from day0.registry.family import Context, Family, Impl, Shapes, number, reference


def _flops(shapes: Shapes, context: Context) -> float:
    terms = 1 + (shapes.attrs["num_streams"] if "mix" in shapes.inputs else 0)
    return 2.0 * terms * shapes.width("x")


FAMILY = Family(
    name="hyper_write",
    rowwise=True,
    what="x_j <- post_j update + sum_i mix_ij x_i, mix [from i, to j] (none: x_j + post_j update)",
    inputs=("x", "update", "post", "mix?"),
    outputs=("y",),
    attrs={"num_streams": number()},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=_flops,
    impls=(
        reference("day0_kernels.hyper_connection.reference:hyper_write"),
        Impl(
            backend="triton",
            entry="day0_kernels.hyper_connection.write:hyper_write",
            limits=few_streams,
            min_capability=(8, 0),
            parity="hyper_connection/write-bf16",
        ),
    ),
)
