"""The gate between n-gram features and the residual streams (Qwen4-Exp)."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, number, reference

FAMILY = Family(
    name="ngram_gate",
    what="per stream m: s = <key_m, query_m> / sqrt(H); y_m = sigmoid(sign(s) sqrt(max(|s|, 1e-6)))"
    " value",
    inputs=("key", "query", "value"),
    outputs=("y",),
    attrs={"num_streams": number()},
    infer=lambda s: {"y": TensorSpec(dims=s.inputs["key"].dims, format=s.inputs["key"].format)},
    flops=lambda s, c: 4.0 * s.width("key"),
    impls=(reference("day0_kernels.ngram_embedding.reference:ngram_gate"),),
)
