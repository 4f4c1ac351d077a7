"""Gated delta net: delta rule with one decay per value head (arXiv:2412.06464)."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Context, Family, Impl, Shapes, number, real, reference


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
    impls=(
        reference("day0_kernels.gdn.reference:gdn"),
        _triton("prefill", "prefill:gdn_prefill", "gdn/bf16-ragged"),
        _triton("decode", "decode:gdn_decode", "gdn/decode-bf16"),
    ),
)
