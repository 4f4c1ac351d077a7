"""Tensors that no mechanism explains, kept together by module path: always new."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Attr, Family

FAMILY = Family(
    name="unknown",
    what="an operator nobody has described yet: its weights' shapes are all that is known",
    inputs=("x",),
    weights=("w*",),
    outputs=("y",),
    attrs={"module": Attr(kinds=(str,))},
    infer=lambda s: {"y": TensorSpec(dims=s.inputs["x"].dims)},
    flops=lambda s, c: 2.0 * sum(spec.width for spec in s.weights.values() if len(spec.dims) > 1),
)
