"""Kimi delta attention: q, k, v through short convolutions, the delta rule with one decay per key
channel, a gated norm (arXiv:2510.26692; architectures.md [KDA])."""

import math
from dataclasses import dataclass
from typing import Any

from day0.ir.tensor import TensorSpec
from day0.ir.weight import Leaf, Pick, Reshape
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.short_conv import short_conv
from day0.mechanisms.spec import Flow, Layer, Mechanism

MODULES = ("self_attn", "linear_attn", "attention")
A_LOG = ("A_log", "a_log_bias", "forget_gate.A_log")
TILE = 128
DT_BIAS = ("dt_bias", "forget_gate.dt_bias")
OUT = ("o_proj", "dense")
F_A = ("f_a_proj", "forget_gate.f_a_proj")
LOWER_BOUND = ("linear_attn_config.gate_lower_bound", "linear_lower_bound", "kda_lower_bound",
               "lower_bound")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Kda:
    """`gate_rank`, `out_rank`: width of the low-rank forget and output gates, 0 for one full
    matrix. `lower_bound` set: bounded decay; None: -exp(a_log) * softplus. `a_log_size`: stored
    elements, of which the first num_heads are used."""

    num_heads: int
    head_dim: int
    conv_size: int
    lower_bound: float | None
    gate_rank: int
    out_rank: int
    norm_eps: float
    a_log_size: int


def sees(layer: Layer) -> bool:
    at = layer.at.child(*MODULES)
    return at.has(*A_LOG) and at.has("f_proj.weight", *(f"{name}.weight" for name in F_A))


def says(layer: Layer) -> bool:
    return layer.word == "linear" and layer.cfg.says(
        "linear_attn_config.num_heads", "linear_attn_config.head_dim", "linear_num_heads",
        "linear_head_dim", "kda_lower_bound", "kda_safe_gate", "layer_group_size",
    )  # fmt: skip


def read(layer: Layer) -> Kda:
    cfg, at = layer.cfg, layer.at.child(*MODULES)
    heads = cfg.get(
        "kda.num_heads", "linear_attn_config.num_heads", "linear_num_heads", "linear_num_key_heads",
        "num_attention_heads", derive=lambda: at.dim(0, "b_proj.weight"),
    )  # fmt: skip
    head_dim = cfg.get(
        "kda.head_dim", "linear_attn_config.head_dim", "linear_head_dim", "linear_key_head_dim",
        "head_dim", derive=lambda: at.dim(0, "o_norm.weight"),
    )  # fmt: skip
    # Ling's file has the kernel size once, the same file saved by transformers twice.
    cfg.word("short_conv_kernel_size")
    return Kda(
        num_heads=heads,
        head_dim=head_dim,
        conv_size=cfg.get(
            "kda.conv_size",
            "linear_attn_config.short_conv_kernel_size",
            "linear_conv_kernel_dim",
            "short_conv_kernel_size",
            derive=lambda: at.dim(2, "q_conv1d.weight"),
        ),  # fmt: skip
        lower_bound=_lower_bound(layer),
        gate_rank=0 if _full_forget(layer, at) else head_dim,
        out_rank=0 if _full_output(layer, at) else head_dim,
        norm_eps=layer.shape.norm_eps,
        a_log_size=max(
            cfg.get("kda.a_log_size", derive=lambda: _a_log_size(at, heads), default=heads), heads
        ),
    )


def _a_log_size(at: Scope, heads: int) -> int | None:
    """Stored elements: one a head, or a flat vector padded by less than a tile (Kimi-K3). Any other
    size is no padding but a tensor of the wrong shape, which the proof names."""
    shape = at.shape(*A_LOG)
    if shape is None:
        return None
    size = math.prod(shape)
    padded = len(shape) == 1 and heads <= size < heads + TILE
    return size if padded or size == heads else heads


def _lower_bound(layer: Layer) -> float | None:
    """Presence of the bound chooses the equation (field case 153)."""
    cfg = layer.cfg
    bound = cfg.get("kda.lower_bound", *LOWER_BOUND, default=None, decisive=True)
    if cfg.word("linear_attn_config.safe_gate", "kda_safe_gate") is False:
        return cfg.note("kda.lower_bound", None, "config", "safe_gate is false", decisive=True)
    return bound


def _full_forget(layer: Layer, at: Scope) -> bool:
    cfg = layer.cfg
    said = cfg.get("kda.full_forget_gate", "no_kda_lora", default=cfg.says("layer_group_size"))
    if at.has("f_proj.weight") or at.has(*(f"{name}.weight" for name in F_A)):
        return cfg.note("kda.full_forget_gate", at.has("f_proj.weight"), "header", "f_proj")
    return said


def _full_output(layer: Layer, at: Scope) -> bool:
    cfg = layer.cfg
    said = cfg.get(
        "kda.full_output_gate",
        "linear_attn_config.use_full_rank_gate",
        "no_kda_lora",
        default=cfg.says("layer_group_size"),
    )
    if at.has("g_proj.weight", "g_a_proj.weight"):
        return cfg.note("kda.full_output_gate", at.has("g_proj.weight"), "header", "g_proj")
    return said


def flow(spec: Kda, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    at = at.child(*MODULES)
    n, d = spec.num_heads, spec.head_dim
    width = n * d
    q, k, v = (
        short_conv(
            b,
            f"{name}_conv",
            b.project(f"{name}_proj", x, at, f"{name}_proj", width, role="attention_proj"),
            at.leaf((f"{name}_conv1d.weight", f"{name}_conv.weight"), (width, 1, spec.conv_size)),
        )
        for name in ("q", "k", "v")
    )
    gate = _low_rank(b, "f", x, at, spec.gate_rank, width)
    beta = b.project("b_proj", x, at, "b_proj", n, role="attention_proj")
    state = b.cache(
        "state",
        growth="per-sequence",
        role="state",
        rollback="versions",
        parts=(("state", TensorSpec(dims=(n, d, d), format="fp32")),),
    )
    a_log, padding = _a_log(spec, at)
    y = b.op(
        "kda",
        "kda",
        {"q": q, "k": k, "v": v, "gate": gate, "beta": beta},
        {
            "a_log": b.weight("a_log", a_log, role="state", padding=padding),
            "dt_bias": b.weight("dt_bias", at.leaf(DT_BIAS, (width,)), role="state"),
        },
        {"state": (state, "rw")},
        num_heads=n,
        head_dim=d,
        value_dim=d,
        decay="softplus" if spec.lower_bound is None else "bounded",
        lower_bound=spec.lower_bound,
    )["o"]
    out_gate = _low_rank(b, "g", x, at, spec.out_rank, width)
    y = b.op(
        "gated_rmsnorm",
        "o_norm",
        {"x": y, "gate": out_gate},
        {"weight": b.weight("o_norm", at.leaf("o_norm.weight", (d,)), role="norm")},
        eps=spec.norm_eps,
        group=d,
        activation="sigmoid",
    )["y"]
    return b.project("o_proj", y, at, OUT, b.width(x), role="attention_proj")


def _low_rank(b: Builder, name: str, x: str, at: Scope, rank: int, width: int) -> str:
    if not rank:
        return b.project(f"{name}_proj", x, at, f"{name}_proj", width, role="attention_proj")
    inner = F_A if name == "f" else (f"{name}_a_proj",)
    outer = tuple(option.replace("_a_proj", "_b_proj") for option in inner)
    low = b.project(f"{name}_a_proj", x, at, inner, rank, role="attention_proj")
    return b.project(f"{name}_b_proj", low, at, outer, width, role="attention_proj")


def _a_log(spec: Kda, at: Scope) -> tuple[Any, tuple[Any, ...]]:
    """One value a head, stored flat, as [1, 1, n, 1], or padded (Kimi-K3: 96 of 128)."""
    n, stored = spec.num_heads, spec.a_log_size
    shape = at.shape(*A_LOG) or (stored,)
    leaf: Leaf = at.leaf(A_LOG, tuple(shape) if math.prod(shape) == stored else (stored,))
    if stored == n:
        return (leaf if leaf.dims == (n,) else Reshape(of=leaf, dims=(n,))), ()
    used = Pick(of=leaf, dim=0, period=stored, start=0, stop=n)
    return used, (Pick(of=leaf, dim=0, period=stored, start=n, stop=stored),)


KDA = Mechanism(stem="kda", spec=Kda, sees=sees, says=says, read=read, flow=flow)
