"""Differential attention: two softmaxes of paired heads over the same cache of keys and values."""

from day0.ir.tensor import TensorSpec
from day0.registry.families.gqa import seen
from day0.registry.family import Family, number, real, reference

FAMILY = Family(
    name="differential",
    what="softmax of the first half of the heads minus lambda times that of the second, over both"
    " halves of the values, RMS norm of each pair",
    inputs=("q",),
    weights=("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"),
    caches=("kv",),
    outputs=("y",),
    attrs={
        "num_heads": number(),
        "num_kv_heads": number(),
        "head_dim": number(),
        "scale": real(),
        "window": number(0),
        "lambda_init": real(),
        "eps": real(),
    },
    infer=lambda s: {
        "y": TensorSpec(dims=(s.rows("q"), s.attrs["num_heads"] * s.attrs["head_dim"]))
    },
    flops=lambda s, c: 6.0 * s.attrs["num_heads"] * s.attrs["head_dim"] * seen(s, c),
    entries=lambda s, c: {"kv": seen(s, c)},
    impls=(reference("day0_kernels.gqa.reference:differential"),),
)
