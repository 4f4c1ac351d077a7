"""x times a function of the row's position, per head."""

from day0.registry.family import Family, number, real, reference, word

FAMILY = Family(
    name="position_scale",
    what="each head times s*ln(position+1)+b (ssmax), or"
    " 1+beta*ln(1+floor(position/original)) (floor_log; Llama 4)",
    inputs=("x",),
    weights=("scale?", "bias?"),
    outputs=("y",),
    attrs={
        "rule": word("ssmax", "floor_log"),
        "num_heads": number(),
        "beta": real(None),
        "original": number(0),
    },
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 2.0 * s.width("x"),
    impls=(reference("day0_kernels.basic.reference:position_scale"),),
)
