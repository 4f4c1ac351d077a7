"""Lightning attention: linear attention with one fixed decay per head (arXiv:2401.04658)."""

from day0.registry.family import Family, number, real, reference

FAMILY = Family(
    name="lightning",
    what="linear attention, S <- e^-slope_h S + k v, o = q^T S; slope from head and layer number",
    inputs=("q", "k", "v"),
    caches=("state",),
    outputs=("y",),
    attrs={
        "num_heads": number(),
        "head_dim": number(),
        # slope_h = (2^(-8/num_heads))^(h+1) * slope_scale
        "slope_scale": real(),
    },
    infer=lambda s: {"y": s.inputs["v"]},
    flops=lambda s, c: 5.0 * s.attrs["num_heads"] * s.attrs["head_dim"] ** 2,
    entries=lambda s, c: {"state": 2.0} if c.phase == "decode" else {},
    impls=(reference("day0_kernels.lightning.reference:lightning"),),
)
