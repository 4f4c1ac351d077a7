"""Lightning attention: linear attention with one fixed decay per head (arXiv:2401.04658)."""

from day0.registry.family import Family, Impl, Shapes, number, real, reference
from day0.registry.ways import heads


def _limits(shapes: Shapes) -> tuple[str, ...]:
    """Head sizes that the parity cases cover; slopes that keep the decays of a chunk in range."""
    size, scale = shapes.attrs["head_dim"], shapes.attrs["slope_scale"]
    reasons = () if size in (64, 128) else (f"head_dim {size} (takes 64 or 128)",)
    return reasons if 0.0 < scale <= 1.25 else (*reasons, f"slope_scale {scale} (takes 0 to 1.25)")


def _triton(phase: str, entry: str, parity: str) -> Impl:
    return Impl(
        backend="triton",
        entry=f"day0_kernels.lightning.{entry}",
        phases=(phase,),
        attrs={"of_heads": (0,)},  # slopes of all heads
        formats={"q": ("bf16", "fp32"), "state": ("fp32", "bf16")},
        limits=_limits,
        min_capability=(9, 0),
        parity=parity,
    )


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
        # a rank's share: the heads from `first_head` on, of so many in all
        "first_head": number(0),
        "of_heads": number(0),
    },
    infer=lambda s: {"y": s.inputs["v"]},
    flops=lambda s, c: 5.0 * s.attrs["num_heads"] * s.attrs["head_dim"] ** 2,
    entries=lambda s, c: {"state": 2.0} if c.phase == "decode" else {},
    ways=lambda s: (
        heads(
            s.attrs,
            ("q", "k", "v"),
            caches=(("state", 0),),
            first="first_head",
            total="of_heads",
        ),
    ),
    # the decay is one number a head
    transition=lambda s: s.attrs["num_heads"] * (1 + s.attrs["head_dim"] ** 2),
    impls=(
        reference("day0_kernels.lightning.reference:lightning"),
        _triton("prefill", "prefill:lightning_prefill", "lightning/bf16-ragged"),
        _triton("decode", "decode:lightning_decode", "lightning/decode-bf16"),
    ),
)
