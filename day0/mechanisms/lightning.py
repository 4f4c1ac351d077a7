"""Lightning attention: linear attention with a fixed decay per head (arXiv:2401.04658;
architectures.md [LGT]; MiniMax-01)."""

from dataclasses import dataclass

from day0.ir.tensor import TensorSpec
from day0.ir.weight import Expr, Pick
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.spec import Flow, Layer, Mechanism

MODULES = ("self_attn", "attention")
# Decay tables that transformers stores beside the parameters; the formula gives them again.
TABLES = ("slope_rate", "query_decay", "key_decay", "diagonal_decay")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lightning:
    """`slope_scale`: head h decays by exp(-slope_scale * 2^(-8 (h + 1) / num_heads)) a token; it
    falls from layer to layer. `activation` acts on q, k and v; `norm_eps` is the output norm's."""

    num_heads: int
    head_dim: int
    slope_scale: float
    activation: str
    norm_eps: float


def sees(layer: Layer) -> bool:
    at = layer.at.child(*MODULES)
    return at.has("qkv_proj.weight") and at.has("output_gate.weight")


def says(layer: Layer) -> bool:
    return layer.word == "linear" and layer.cfg.says(
        "linear_attn_alpha_factor", "layernorm_linear_attention_alpha", "attn_type_list"
    )


def read(layer: Layer) -> Lightning:
    cfg, at, shape = layer.cfg, layer.at.child(*MODULES), layer.shape
    cfg.word("block_size")  # how a prefill is cut into blocks; the sums are the same
    heads = cfg.get("lightning.num_heads", "num_attention_heads")
    head_dim = cfg.get(
        "lightning.head_dim", "head_dim",
        derive=lambda: _per_head(at, heads), default=shape.hidden_size // heads,
    )  # fmt: skip
    cfg.get("lightning.slope", assume="geometric, falling with depth", decisive=True)
    cfg.get("lightning.row_order", assume="q|k|v per head", decisive=True)
    depth = layer.index / (shape.num_layers - 1 + 1e-5)
    name = cfg.get("lightning.activation", "hidden_act", assume="silu")
    return Lightning(
        num_heads=heads,
        head_dim=head_dim,
        slope_scale=1.0 - depth + 1e-5,
        activation="silu" if name == "swish" else name,
        norm_eps=cfg.get("lightning.norm_eps", assume=1e-6),
    )


def _per_head(at: Scope, heads: int) -> int | None:
    rows = at.dim(0, "qkv_proj.weight")
    return None if rows is None else rows // (3 * heads)


def flow(spec: Lightning, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    at = at.child(*MODULES)
    n, d = spec.num_heads, spec.head_dim
    q, k, v = (_activated(spec, b, name, x, at) for name in ("q", "k", "v"))
    state = b.cache(
        "state",
        growth="per-sequence",
        role="state",
        rollback="versions",
        parts=(("state", TensorSpec(dims=(n, d, d), format="fp32")),),
    )
    y = b.op(
        "lightning",
        "lightning",
        {"q": q, "k": k, "v": v},
        {},
        {"state": (state, "rw")},
        num_heads=n,
        head_dim=d,
        slope_scale=spec.slope_scale,
    )["y"]
    gate = b.project("gate_proj", x, at, "output_gate", n * d, role="attention_proj")
    weight = b.weight("o_norm", at.leaf("norm.weight", (n * d,)), role="norm", padding=_tables(at))
    inputs = {"x": y, "gate": gate}
    y = b.op(
        "gated_rmsnorm", "o_norm", inputs, {"weight": weight},
        eps=spec.norm_eps, group=n * d, activation="sigmoid",
    )["y"]  # fmt: skip
    return b.project("o_proj", y, at, "out_proj", b.width(x), role="attention_proj")


def _activated(spec: Lightning, b: Builder, name: str, x: str, at: Scope) -> str:
    """Rows of qkv_proj are [q | k | v] per head; the activation comes before they are used."""
    d = spec.head_dim
    leaf = at.leaf("qkv_proj.weight", (3 * spec.num_heads * d, b.width(x)))
    start = {"q": 0, "k": d, "v": 2 * d}[name]
    rows = Pick(of=leaf, dim=0, period=3 * d, start=start, stop=start + d)
    y = b.linear(f"{name}_proj", x, rows, role="attention_proj")
    return b.op("activation", f"{name}_act", {"x": y}, function=spec.activation)["y"]


def _tables(at: Scope) -> tuple[Expr, ...]:
    shapes = ((name, at.shape(name)) for name in TABLES)
    return tuple(at.leaf(name, shape) for name, shape in shapes if shape is not None)


LIGHTNING = Mechanism(stem="lightning", spec=Lightning, sees=sees, says=says, read=read, flow=flow)
