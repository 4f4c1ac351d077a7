"""Gated delta net: delta rule with one decay per value head (arXiv:2412.06464)."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Context, Family, Impl, Shapes, number, real, reference
from day0.registry.ways import Cut, Way


def _flops(shapes: Shapes, context: Context) -> float:
    heads, dk, dv = (shapes.attrs[name] for name in ("num_heads", "head_dim", "value_dim"))
    return 7.0 * heads * dk * dv


def _limits(shapes: Shapes) -> tuple[str, ...]:
    """Head sizes that the parity cases cover."""
    sizes = shapes.attrs["head_dim"], shapes.attrs["value_dim"]
    if sizes in ((64, 64), (128, 128)):
        return ()
    return (f"head_dim {sizes[0]}, value_dim {sizes[1]} (takes 64 or 128, both equal)",)


def _triton(phase: str, entry: str, parity: str) -> Impl:
    return Impl(
        backend="triton",
        entry=f"day0_kernels.gdn.{entry}",
        phases=(phase,),
        formats={"state": ("fp32", "bf16")},
        limits=_limits,
        min_capability=(9, 0),
        parity=parity,
        # of a prompt: what is local to chunks, the systems solved, the scan
        launches=3 if phase == "prefill" else 1,
    )


def _ways(shapes: Shapes) -> tuple[Way, ...]:
    """Value heads stay with their key head (field case 7)."""
    values = Cut(
        units=shapes.attrs["num_heads"],
        what="value heads",
        inputs=("v", "decay", "beta"),
        weights=(("a_log", 0), ("dt_bias", 0)),
        caches=(("state", 0),),
        counts=("num_heads",),
    )
    keys = Cut(
        units=shapes.attrs["num_key_heads"],
        what="key heads",
        inputs=("q", "k"),
        counts=("num_key_heads",),
    )
    return (Way(name="heads", cuts=(values, keys), yields="split"),)


FAMILY = Family(
    name="gdn",
    what="delta rule with a decay per value head; key heads shared by value heads; state fp32",
    inputs=("q", "k", "v", "decay", "beta"),
    weights=("a_log", "dt_bias"),
    caches=("state",),
    outputs=("y",),
    attrs={
        "num_key_heads": number(),
        "num_heads": number(),
        "head_dim": number(),
        "value_dim": number(),
        # beta = beta_scale * sigmoid(b): 2 lets the transition have negative eigenvalues
        "beta_scale": real(1.0),
    },
    infer=lambda s: {
        "y": TensorSpec(dims=(s.rows("q"), s.attrs["num_heads"] * s.attrs["value_dim"]))
    },
    flops=_flops,
    entries=lambda s, c: {"state": 2.0} if c.phase == "decode" else {},
    ways=_ways,
    transition=lambda s: (
        s.attrs["num_heads"] * s.attrs["head_dim"] * (s.attrs["head_dim"] + s.attrs["value_dim"])
    ),
    impls=(
        reference("day0_kernels.gdn.reference:gdn"),
        _triton("prefill", "prefill:gdn_prefill", "gdn/bf16-ragged"),
        _triton("decode", "decode:gdn_decode", "gdn/decode-bf16"),
        _triton("verify", "decode:gdn_verify", "gdn/verify-bf16"),
    ),
)
