"""Mixture of experts: router, experts, shared expert, latent width (architectures.md [NGR])."""

from dataclasses import dataclass

from day0.ir.weight import Expr, Leaf, Mul, Permute, Pick, Reshape
from day0.mechanisms import _moe_read as reading
from day0.mechanisms._moe_read import (
    BIAS,
    DOWN,
    FACTORS,
    FAR_BIAS,
    FUSED_IN,
    FUSED_OUT,
    GATE,
    NUM_EXPERTS,
    OWN_NORM,
    ROUTER,
    ROWS,
    SHARED,
    TABLE,
    TOP_K,
    UP,
    WIDTH,
)
from day0.mechanisms.builder import Builder
from day0.mechanisms.glu import Activation, activation, feed_forward
from day0.mechanisms.names import Scope
from day0.mechanisms.norm import weighted_rms
from day0.mechanisms.spec import Flow, Layer, Mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class Moe:
    """`layout` of the stored experts: "each" (one tensor an expert and matrix), "fused" ([E, 2I, H]
    and [E, H, I]), "transposed" ([E, H, 2I] and [E, I, H]; gpt-oss in bf16), "rows" (DBRX).
    `interleaved`: gate and up alternate along 2I, else they stand [gate | up]. `left_out`: score of
    experts outside the chosen groups. `shared` channels of the shared expert (0: none), gated by
    one sigmoid value if `shared_gate`. `latent` > 0: the experts' own width (Kimi-K3). `hashed`:
    experts come from a table by token id (DeepSeek-V4). `softcap` of the router's logits.
    `weigh_input`: experts read x times their weight (Llama 4). `average`: half of routed plus half
    of shared (Command A). `beside`: beside a dense feed-forward, with norms of their own for the
    router and for what the experts read, and a factor for each expert (Gemma 4)."""

    num_experts: int
    top_k: int
    intermediate: int
    score: str
    activation: Activation
    shared_activation: Activation
    num_groups: int = 1
    top_groups: int = 1
    group_score: str = "top2"
    left_out: str = "lowest"
    renormalise: bool
    renormalise_eps: float
    scale: float
    bias: bool
    router_bias: bool = False
    expert_bias: bool = False
    hashed: bool = False
    shared: int = 0
    shared_gate: bool = False
    latent: int = 0
    latent_norm: bool = False
    norm_eps: float
    layout: str = "each"
    interleaved: bool = False
    softcap: float | None = None
    weigh_input: bool = False
    average: bool = False
    beside: bool = False


def sees(layer: Layer) -> bool:
    at = reading.place(layer.at)
    return at.has_module("experts") or at.has(
        "experts.gate_up_proj", "experts.0.w1.weight", "experts.0.gate_proj.weight",
        "router.layer.weight",
    )  # fmt: skip


def says(layer: Layer) -> bool:
    cfg = layer.cfg
    if cfg.word("enable_moe_block") is False or cfg.word("is_moe") is False:
        for keys in (NUM_EXPERTS, TOP_K, WIDTH[:1], ("norm_topk_prob",)):
            cfg.word(*keys)
        return False
    return layer.ffn_word in ("sparse", "hash", "") and cfg.says(*NUM_EXPERTS)


def read(layer: Layer) -> Moe:
    cfg, at = layer.cfg, reading.place(layer.at)
    experts = cfg.get("moe.num_experts", *NUM_EXPERTS, derive=lambda: reading.experts(at))
    groups, top_groups, group_score = reading.groups(layer)
    width = cfg.get("moe.intermediate", *WIDTH)
    cfg.word("moe_norm_min")  # Ernie: a bound that no sum of k softmax scores falls below
    cfg.word("intermediate_size_mlp", "prefix_dense_intermediate_size")
    cfg.word("ffn_config.hidden_size")  # DBRX states the width a second time
    cfg.word("mlp_bias")  # of dense layers; where experts have biases the tensors tell
    cfg.word("intermediate_size")  # of dense layers, where the experts have a width of their own
    cfg.word("experts_per_token")  # gpt-oss states num_experts_per_tok a second time
    shared = reading.shared_width(layer, at, width)
    layout = reading.layout(at, layer, width)
    return Moe(
        num_experts=experts,
        top_k=cfg.get("moe.top_k", *TOP_K),
        intermediate=width,
        score=reading.score(layer, at),
        activation=activation(layer, "experts"),
        shared_activation=activation(layer, "shared"),
        num_groups=groups,
        top_groups=top_groups,
        group_score=group_score,
        left_out=cfg.get("moe.left_out", assume="lowest") if groups > 1 else "lowest",
        renormalise=bool(
            cfg.get("moe.renormalise", "norm_topk_prob", "moe_renormalize", assume=True)
        ),
        renormalise_eps=cfg.get(
            "moe.renormalise_eps", default=1e-20 if reading.sigmoid(layer) else 0.0
        ),
        scale=cfg.get(
            "moe.scale",
            "routed_scaling_factor",
            "router_scaling_factor",
            "route_scale",
            "moe_routed_scaling_factor",
            default=1.0,
        ),  # fmt: skip
        bias=reading.bias(layer, at),
        router_bias=(at.has(*(f"{name}.bias" for name in ROUTER)) and not at.has(*BIAS))
        or bool(cfg.get("moe.router_bias", default=False)),
        expert_bias=at.has("experts.gate_up_proj_bias")
        or bool(cfg.get("moe.expert_bias", default=False)),
        hashed=at.has(*TABLE) if at.names else layer.ffn_word == "hash",
        shared=shared,
        shared_gate=at.has("shared_expert_gate.weight")
        or bool(shared and cfg.get("moe.shared_gate", default=False)),
        latent=cfg.get("moe.latent", "routed_expert_hidden_size", default=0) or 0,
        latent_norm=bool(cfg.get("moe.latent_norm", "latent_moe_use_norm", default=False)),
        norm_eps=layer.shape.norm_eps,
        layout=layout,
        interleaved=reading.interleaved(layer, at, layout),
        softcap=cfg.get("moe.softcap", "moe_router_logit_softcapping", default=None) or None,
        weigh_input=bool(cfg.get("moe.weigh_input", "moe_apply_router_weight_on_input",
                                 default=False)),
        beside=reading.beside(layer),
        average=cfg.word("shared_expert_combination_strategy") == "average" and shared > 0,
    )  # fmt: skip


def flow(spec: Moe, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    outer, at = at, reading.place(at)
    logits = _logits(spec, b, _router_input(spec, b, x, at), at)
    inputs, weights = {"logits": logits}, {}
    if spec.hashed:
        inputs["ids"] = flow.inputs["ids"]
        vocab = at.shape(*TABLE)
        rows = vocab[0] if vocab else flow.kept["vocab_size"]
        weights["table"] = b.weight("hash_table", at.leaf(TABLE, (rows, spec.top_k)), role="router")
    elif spec.bias:
        weights["bias"] = b.weight("bias", _bias_leaf(spec, at, outer), role="router")
    route = b.op(
        "moe_route", "route", inputs, weights,
        score=spec.score, top_k=spec.top_k, num_groups=spec.num_groups,
        top_groups=spec.top_groups, group_score=spec.group_score, left_out=spec.left_out,
        renormalise=spec.renormalise,
        renormalise_eps=spec.renormalise_eps, scale=float(spec.scale),
    )  # fmt: skip
    inner = x
    if spec.beside:
        inner = weighted_rms(b, "norm", x, outer, f"{OWN_NORM}.weight", eps=spec.norm_eps,
                             size=b.width(x))  # fmt: skip
    if spec.latent:
        inner = b.project(
            "latent_down", x, at, "routed_expert_down_proj", spec.latent, role="dense"
        )
    y = b.op(
        "experts",
        "experts",
        {"x": inner, "experts": route["experts"], "weights": route["weights"]},
        _expert_weights(spec, b, at, b.width(inner)),
        num_experts=spec.num_experts,
        top_k=spec.top_k,
        weigh_input=spec.weigh_input,
        **spec.activation.attrs(),
    )["y"]
    if spec.latent:
        if spec.latent_norm:
            y = weighted_rms(
                b, "latent_norm", y, at, "routed_expert_norm.weight",
                eps=spec.norm_eps, size=spec.latent,
            )  # fmt: skip
        y = b.project("latent_up", y, at, "routed_expert_up_proj", b.width(x), role="dense")
    return _with_shared(spec, b, x, y, at, outer)


def _logits(spec: Moe, b: Builder, x: str, at: Scope) -> str:
    names = tuple(f"{name}.weight" for name in ROUTER)
    bias = None
    if spec.router_bias:
        bias = at.leaf(tuple(f"{name}.bias" for name in ROUTER), (spec.num_experts,))
    source = at.leaf(names, (spec.num_experts, b.width(x)))
    logits = b.linear("router", x, source, role="router", bias=bias)
    if spec.softcap is None:
        return logits
    return b.op("softcap", "router_cap", {"x": logits}, cap=float(spec.softcap))["y"]


def _router_input(spec: Moe, b: Builder, x: str, at: Scope) -> str:
    """What the router reads: x, or its norm times a learned vector, by the root of the width."""
    if not spec.beside:
        return x
    width = b.width(x)
    return weighted_rms(b, "router_norm", x, at, "router.scale", eps=spec.norm_eps, size=width,
                        scale=width**-0.5)  # fmt: skip


def _bias_leaf(spec: Moe, at: Scope, outer: Scope) -> Expr:
    if outer.has(FAR_BIAS):
        return outer.leaf(FAR_BIAS, (spec.num_experts,))
    if len(at.shape(*BIAS) or ()) == 2:  # Ernie's
        leaf = at.leaf(BIAS, (1, spec.num_experts))
        return Reshape(of=leaf, dims=(spec.num_experts,))
    return at.leaf(BIAS, (spec.num_experts,))


def _with_shared(spec: Moe, b: Builder, x: str, y: str, at: Scope, outer: Scope) -> str:
    """Granite's shared expert stands beside the module, in the layer."""
    if not spec.shared:
        return y
    with b.at("shared"):
        inner = (outer if outer.has_module("shared_mlp") else at).child(*SHARED)
        shared = feed_forward(
            b, x, inner, spec.shared, spec.shared_activation, role="shared_expert"
        )
        if spec.shared_gate:
            gate = b.project("gate", x, at, "shared_expert_gate", 1, role="router")
            inputs = {"x": shared, "gate": gate}
            shared = b.op("gate", "gated", inputs, activation="sigmoid", num_heads=1)["y"]
    half = 0.5 if spec.average else 1.0
    return b.op("add", "sum", {"a": y, "b": shared}, scale_a=half, scale_b=half)["y"]


def _expert_weights(spec: Moe, b: Builder, at: Scope, width: int) -> dict[str, str]:
    e, i = spec.num_experts, spec.intermediate
    sources: dict[str, Expr] = {}
    if spec.layout == "each":
        sources["gate"] = at.stack(GATE, e, (i, width))
        sources["up"] = at.stack(UP, e, (i, width))
        sources["down"] = at.stack(DOWN, e, (width, i))
    elif spec.layout == "rows":
        gate, up, down = (
            Reshape(of=at.leaf(name, (e * i, width)), dims=(e, i, width)) for name in ROWS
        )
        sources = {"gate": gate, "up": up, "down": Permute(of=down, order=(0, 2, 1))}
    elif spec.layout == "fused":
        both = at.leaf(FUSED_IN, (e, 2 * i, width))
        sources["gate"], sources["up"] = _gate_and_up(spec, both, 1)
        sources["down"] = at.leaf(FUSED_OUT, (e, width, i))
    else:
        both = at.leaf(FUSED_IN, (e, width, 2 * i))
        sources["gate"], sources["up"] = (
            Permute(of=columns, order=(0, 2, 1)) for columns in _gate_and_up(spec, both, 2)
        )
        sources["down"] = Permute(of=at.leaf(FUSED_OUT, (e, i, width)), order=(0, 2, 1))
    if spec.beside:
        factors = Reshape(of=at.leaf(FACTORS, (e,)), dims=(e, 1, 1))
        sources["down"] = Mul(left=sources["down"], right=factors)
    if spec.expert_bias:
        both = at.leaf("experts.gate_up_proj_bias", (e, 2 * i))
        sources["gate_bias"], sources["up_bias"] = _gate_and_up(spec, both, 1)
        sources["down_bias"] = at.leaf("experts.down_proj_bias", (e, width))
    return {name: b.weight(name, source, role="experts") for name, source in sources.items()}


def _gate_and_up(spec: Moe, both: Leaf, dim: int) -> tuple[Pick, Pick]:
    """The two halves of a dim of 2 * intermediate."""
    half = 1 if spec.interleaved else spec.intermediate
    gate, up = (
        Pick(of=both, dim=dim, period=2 * half, start=start, stop=start + half)
        for start in (0, half)
    )
    return gate, up


MOE = Mechanism(stem="moe", spec=Moe, sees=sees, says=says, read=read, flow=flow)
