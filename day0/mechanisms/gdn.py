"""Gated delta net: q, k, v through short convolutions, the delta rule with one decay per value
head, a gated norm (arXiv:2412.06464; architectures.md [GDN])."""

from dataclasses import dataclass

from day0.ir.tensor import TensorSpec
from day0.ir.weight import Cat, Expr, Leaf, Pick
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.short_conv import short_conv
from day0.mechanisms.spec import Flow, Layer, Mechanism

MODULES = ("linear_attn", "self_attn", "attention")
OUT = ("out_proj", "o_proj")
NORM = ("norm", "out_norm", "o_norm")
# The tensor that tells how the projections are stored -> name of the layout.
MARKS = {
    "in_proj_qkvz.weight": "by_key_head",
    "in_proj_qkv.weight": "qkv",
    "in_proj.weight": "one",
    "a_proj.weight": "each",
}
# OLMo-Hybrid: how training drew A_log and dt_bias, which the checkpoint holds.
INITIAL = ("linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max",
           "linear_dt_init_floor")  # fmt: skip
GATES = ("silu", "sigmoid")
FORMATS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gdn:
    """`num_heads` value heads share `num_key_heads` key heads, consecutive ones the same.

    `layout` of the stored projections: "by_key_head" (in_proj_qkvz with rows [q | k | v | z] and
    in_proj_ba with rows [b | a], repeated per key head; Qwen3-Next), "qkv" (in_proj_qkv with rows
    [q | k | v], in_proj_z, in_proj_b, in_proj_a; Qwen3.5), "one" (in_proj with rows
    [q | k | v | z | b | a]; Lara), "each" (one tensor and one convolution each; OLMo-Hybrid).
    `beta_scale` 2 lets the transition have negative eigenvalues. The gated norm is plain.
    """

    num_key_heads: int
    num_heads: int
    head_dim: int
    value_dim: int
    conv_size: int
    beta_scale: float
    norm_eps: float
    gate: str
    layout: str
    state_format: str = "fp32"

    @property
    def key_width(self) -> int:
        return self.num_key_heads * self.head_dim

    @property
    def value_width(self) -> int:
        return self.num_heads * self.value_dim


def sees(layer: Layer) -> bool:
    """A_log with one of the four projections; D is Mamba-2's, a forget projection KDA's."""
    at = layer.at.child(*MODULES)
    other = at.has("D", "f_a_proj.weight", "f_proj.weight")
    return at.has("A_log") and at.has(*MARKS) and not other


def says(layer: Layer) -> bool:
    """Types of our tables may leave all sizes to their class (OLMo-Hybrid)."""
    return layer.word == "linear" and (
        "gdn.gate" in layer.cfg.known
        or layer.cfg.says(
            "linear_num_value_heads", "linear_num_key_heads", "linear_key_head_dim",
            "linear_allow_neg_eigval",
        )
    )  # fmt: skip


def read(layer: Layer) -> Gdn:
    cfg, at, shape = layer.cfg, layer.at.child(*MODULES), layer.shape
    for key in INITIAL:
        cfg.word(key)
    # Only OLMo-Hybrid's class works out what is absent: as many heads as attention has, keys of
    # three quarters of a head, values of twice that (transformers 5.24, configuration_olmo_hybrid).
    heads = cfg.get("gdn.num_heads", "linear_num_value_heads", "num_attention_heads")
    key_heads = cfg.get("gdn.num_key_heads", "linear_num_key_heads", "num_attention_heads")
    head_dim = cfg.get(
        "gdn.head_dim", "linear_key_head_dim", default=int(0.75 * shape.hidden_size / key_heads)
    )
    value_dim = cfg.get(
        "gdn.value_dim", "linear_value_head_dim",
        derive=lambda: at.dim(0, *(f"{name}.weight" for name in NORM)), default=2 * head_dim,
    )  # fmt: skip
    negative = cfg.get(
        "gdn.allow_neg_eigval", "linear_allow_neg_eigval", default=False, decisive=True
    )
    return Gdn(
        num_key_heads=key_heads,
        num_heads=heads,
        head_dim=head_dim,
        value_dim=value_dim,
        conv_size=cfg.get(
            "gdn.conv_size",
            "linear_conv_kernel_dim",
            derive=lambda: at.dim(2, "conv1d.weight", "q_conv1d.weight"),
        ),  # fmt: skip
        beta_scale=2.0 if negative else 1.0,
        norm_eps=_norm_eps(layer),
        gate=_gate(layer),
        layout=_layout(layer, at),
        state_format=_state_format(layer),
    )


def _state_format(layer: Layer) -> str:
    """The config's own word, else fp32, never the dtype of the activations (field case 69)."""
    word = layer.cfg.get(
        "gdn.state_dtype", "mamba_ssm_dtype", "mamba_ssm_cache_dtype", default="float32"
    )
    name = str(word).removeprefix("torch.")
    if name not in FORMATS:
        source = f"no dtype of a state is called {name!r}"
        layer.cfg.note("gdn.state_format", "fp32", "assumed", source, decisive=True)
        return "fp32"
    return FORMATS[name]


def _norm_eps(layer: Layer) -> float:
    """The config's eps in most classes; OLMo-Hybrid's has one of its own."""
    cfg, eps = layer.cfg, layer.shape.norm_eps
    if cfg.known.get("gdn.norm_eps", ("", ""))[0] == "norm.eps":
        return cfg.note("gdn.norm_eps", eps, "known", cfg.known["gdn.norm_eps"][1], True)
    return float(cfg.get("gdn.norm_eps", assume=eps))


def _gate(layer: Layer) -> str:
    word = layer.cfg.word("output_gate_type")
    if word is not None:
        name = {"swish": "silu"}.get(word, word)
        if name in GATES:
            return layer.cfg.note("gdn.gate", name, "config", "config.json:output_gate_type", True)
        source = f"the gate {name!r} is unknown"
        return layer.cfg.note("gdn.gate", "silu", "assumed", source, decisive=True)
    return layer.cfg.get("gdn.gate", assume="silu")


def _layout(layer: Layer, at: Scope) -> str:
    """The tensor's name tells the layout, and each name has been published with one order of rows
    only."""
    for name, layout in MARKS.items():
        if at.has(name):
            layer.cfg.note("gdn.row_order", layout, "known", f"the published order of {name}", True)
            return layout
    return layer.cfg.get("gdn.layout", default="qkv")


def flow(spec: Gdn, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    at = at.child(*MODULES)
    sources = projections(spec, at, b.width(x))
    kernels = _kernels(spec, at)
    q, k, v = (
        short_conv(
            b,
            f"{name}_conv",
            b.linear(f"{name}_proj", x, sources[name], role="attention_proj"),
            kernels[name],
        )
        for name in ("q", "k", "v")
    )
    decay = b.linear("a_proj", x, sources["a"], role="attention_proj")
    beta = b.linear("b_proj", x, sources["b"], role="attention_proj")
    n, dk, dv = spec.num_heads, spec.head_dim, spec.value_dim
    state = b.cache(
        "state",
        growth="per-sequence",
        role="state",
        rollback="versions",
        parts=(("state", TensorSpec(dims=(n, dk, dv), format=spec.state_format)),),
    )
    y = b.op(
        "gdn",
        "gdn",
        {"q": q, "k": k, "v": v, "decay": decay, "beta": beta},
        {
            "a_log": b.weight("a_log", at.leaf("A_log", (n,)), role="state"),
            "dt_bias": b.weight("dt_bias", at.leaf("dt_bias", (n,)), role="state"),
        },
        {"state": (state, "rw")},
        num_key_heads=spec.num_key_heads,
        num_heads=n,
        head_dim=dk,
        value_dim=dv,
        beta_scale=spec.beta_scale,
    )["y"]
    gate = b.linear("z_proj", x, sources["z"], role="attention_proj")
    norm = at.leaf(tuple(f"{name}.weight" for name in NORM), (dv,))
    y = b.op(
        "gated_rmsnorm",
        "o_norm",
        {"x": y, "gate": gate},
        {"weight": b.weight("o_norm", norm, role="norm")},
        eps=spec.norm_eps,
        group=dv,
        activation=spec.gate,
    )["y"]
    return b.project("o_proj", y, at, OUT, b.width(x), role="attention_proj")


def projections(spec: Gdn, at: Scope, width: int) -> dict[str, Expr]:
    """The matrices [out, width] of q, k, v, z (output gate), b (beta) and a (decay)."""
    keys, values, n = spec.key_width, spec.value_width, spec.num_heads
    if spec.layout == "each":
        rows = {"q": keys, "k": keys, "v": values, "b": n, "a": n}
        sources: dict[str, Expr] = {
            name: at.leaf(f"{name}_proj.weight", (count, width)) for name, count in rows.items()
        }
        return {**sources, "z": at.leaf("g_proj.weight", (values, width))}
    if spec.layout == "one":
        parts = {"q": keys, "k": keys, "v": values, "z": values, "b": n, "a": n}
        return _rows(at, "in_proj.weight", parts, 1, width)
    if spec.layout == "qkv":
        return {
            **_rows(at, "in_proj_qkv.weight", {"q": keys, "k": keys, "v": values}, 1, width),
            "z": at.leaf("in_proj_z.weight", (values, width)),
            "b": at.leaf("in_proj_b.weight", (n, width)),
            "a": at.leaf("in_proj_a.weight", (n, width)),
        }
    groups = spec.num_key_heads
    dk, dv, share = spec.head_dim, values // groups, n // groups
    parts = {"q": dk, "k": dk, "v": dv, "z": dv}
    return {
        **_rows(at, "in_proj_qkvz.weight", parts, groups, width),
        **_rows(at, "in_proj_ba.weight", {"b": share, "a": share}, groups, width),
    }


def _rows(
    at: Scope, name: str, parts: dict[str, int], repeats: int, *inner: int
) -> dict[str, Expr]:
    """The parts' rows of a tensor in which they follow each other, `repeats` times over."""
    period = sum(parts.values())
    leaf = at.leaf(name, (period * repeats, *inner))
    sources: dict[str, Expr] = {}
    start = 0
    for part, count in parts.items():
        sources[part] = Pick(of=leaf, dim=0, period=period, start=start, stop=start + count)
        start += count
    return sources


def _kernels(spec: Gdn, at: Scope) -> dict[str, Expr]:
    """The kernels [channels, 1, K] of q, k and v: one stored tensor, or (OLMo-Hybrid) three."""
    widths = {"q": spec.key_width, "k": spec.key_width, "v": spec.value_width}
    if spec.layout != "each" or at.has("conv1d.weight"):
        return _rows(at, "conv1d.weight", widths, 1, 1, spec.conv_size)
    stored = {name: at.dim(0, f"{name}_conv1d.weight") or width for name, width in widths.items()}
    if sum(stored.values()) != sum(widths.values()):
        stored = widths
    leaves = {
        name: at.leaf(f"{name}_conv1d.weight", (rows, 1, spec.conv_size))
        for name, rows in stored.items()
    }
    return {name: _span(leaves, stored, widths, name) for name in widths}


def _span(
    leaves: dict[str, Leaf], stored: dict[str, int], widths: dict[str, int], wanted: str
) -> Expr:
    """The rows of part `wanted` in the three tensors taken as one.

    transformers 5.24 saves OLMo-Hybrid's runtime tensor as three equal thirds under these names,
    wherever q, k and v begin (conversion_mapping: Concatenate undone by torch.chunk).
    """
    if stored == widths:
        return leaves[wanted]
    names = list(widths)
    first = sum(widths[name] for name in names[: names.index(wanted)])
    last = first + widths[wanted]
    pieces: list[Expr] = []
    start = 0
    for name in names:
        rows = stored[name]
        low, high = max(first - start, 0), min(last - start, rows)
        if low < high:
            pieces.append(Pick(of=leaves[name], dim=0, period=rows, start=low, stop=high))
        start += rows
    return pieces[0] if len(pieces) == 1 else Cat(of=tuple(pieces))


GDN = Mechanism(stem="gdn", spec=Gdn, sees=sees, says=says, read=read, flow=flow)
