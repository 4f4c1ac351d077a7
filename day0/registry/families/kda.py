"""Kimi delta attention: delta rule with one decay per key channel (arXiv:2510.26692)."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Context, Family, Impl, Shapes, number, real, reference, word
from day0.registry.ways import heads


def _flops(shapes: Shapes, context: Context) -> float:
    # decay of the state, k^T S, the rank-one update, q^T S: 7 operations an element of S
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
        entry=f"day0_kernels.kda.{entry}",
        phases=(phase,),
        formats={"a_log": ("fp32",), "dt_bias": ("fp32",), "state": ("fp32", "bf16")},
        limits=_limits,
        min_capability=(9, 0),
        parity=parity,
        # of a prompt: what is local to chunks, the systems solved, the scan
        launches=3 if phase == "prefill" else 1,
    )


FAMILY = Family(
    name="kda",
    what="delta rule with a decay per key channel; q and k L2 norm, gates inside; state fp32",
    inputs=("q", "k", "v", "gate", "beta"),
    weights=("a_log", "dt_bias"),
    caches=("state",),
    outputs=("o",),
    attrs={
        "num_heads": number(),
        "head_dim": number(),
        "value_dim": number(),
        # bounded: lower_bound * sigmoid(exp(a_log) * u); softplus: -exp(a_log) * softplus(u)
        "decay": word("bounded", "softplus"),
        "lower_bound": real(None),
    },
    infer=lambda s: {
        "o": TensorSpec(dims=(s.rows("q"), s.attrs["num_heads"] * s.attrs["value_dim"]))
    },
    flops=_flops,
    entries=lambda s, c: {"state": 2.0} if c.phase == "decode" else {},
    ways=lambda s: (
        heads(
            s.attrs,
            ("q", "k", "v", "gate", "beta"),
            weights=(("a_log", 0), ("dt_bias", 0)),
            caches=(("state", 0),),
        ),
    ),
    transition=lambda s: (
        s.attrs["num_heads"] * s.attrs["head_dim"] * (s.attrs["head_dim"] + s.attrs["value_dim"])
    ),
    impls=(
        reference("day0_kernels.kda.reference:kda_prefill"),
        _triton("prefill", "prefill:kda_prefill", "kda/bf16-ragged"),
        _triton("decode", "decode:kda_decode", "kda/decode-bf16"),
        _triton("verify", "decode:kda_verify", "kda/verify-bf16"),
    ),
)
