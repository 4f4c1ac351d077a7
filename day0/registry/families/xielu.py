"""xIELU: an elementwise function with learned scalars (arXiv 2411.13010)."""

from day0.registry.family import Family, reference
from day0.registry.ways import channels

FAMILY = Family(
    name="xielu",
    rowwise=True,
    what="x^2 softplus(alpha_p) + beta x above zero, an exponential below (Apertus)",
    inputs=("x",),
    weights=("alpha_p", "alpha_n", "beta", "eps"),
    outputs=("y",),
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 8.0 * s.width("x"),
    ways=lambda s: (channels(s.width("x"), ("x",)),),
    impls=(reference("day0_kernels.basic.reference:xielu"),),
)
