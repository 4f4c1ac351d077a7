"""Mixture of experts: router, experts, shared expert, latent width (architectures.md [NGR])."""

from dataclasses import dataclass

from day0.ir.weight import Expr, Leaf, Mul, Permute, Pick, Reshape
from day0.mechanisms.builder import Builder
from day0.mechanisms.glu import Activation, activation, feed_forward
from day0.mechanisms.names import Scope
from day0.mechanisms.norm import weighted_rms
from day0.mechanisms.spec import Flow, Layer, Mechanism

MODULES = ("block_sparse_moe", "mlp", "ffn", "feed_forward", "")
ROUTER = ("gate", "router", "router.proj", "router.gate", "gate.wg", "router.layer")
BIAS = ("gate.e_score_correction_bias", "gate.expert_bias", "e_score_correction_bias", "gate.bias",
        "expert_bias", "experts.e_score_correction_bias",
        "moe_statics.e_score_correction_bias")  # fmt: skip
FAR_BIAS = "moe.router.expert_bias"  # Kolibri's, beside the module in the layer
TABLE = ("gate.tid2eid",)
GATE = ("experts.{e}.gate_proj.weight", "experts.{e}.w1.weight")
UP = ("experts.{e}.up_proj.weight", "experts.{e}.w3.weight")
DOWN = ("experts.{e}.down_proj.weight", "experts.{e}.w2.weight")
SHARED = ("shared_experts", "shared_expert", "shared_mlp")
FUSED_IN = ("experts.gate_up_proj", "input_linear.weight", "experts.fc1.weight")
FUSED_OUT = ("experts.down_proj", "output_linear.weight", "experts.fc2.weight")
NUM_EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts",
               "num_moe_experts", "ffn_config.moe_num_experts")  # fmt: skip
FACTORS, OWN_NORM = "router.per_expert_scale", "pre_feedforward_layernorm_2"
SCORES = ("softmax", "sigmoid", "sqrtsoftplus", "topk_softmax", "topk_sigmoid", "sparsemixer")
TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts",
         "topk", "experts_per_token", "ffn_config.moe_top_k")  # fmt: skip
WIDTH = (
    "moe_intermediate_size",
    "expert_ffn_hidden_size",
    "intermediate_size",
    "ffn_config.ffn_hidden_size",
)
ROWS = ("experts.mlp.w1", "experts.mlp.v1", "experts.mlp.w2")  # DBRX: [E*I, H] each


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
    at = _place(layer.at)
    return at.has_module("experts") or at.has(
        "experts.gate_up_proj", "experts.0.w1.weight", "experts.0.gate_proj.weight",
        "router.layer.weight",
    )  # fmt: skip


def beside(layer: Layer) -> bool:
    """Whether the layer has experts beside its dense feed-forward."""
    if layer.at.names:
        return layer.at.has(FACTORS)
    return layer.cfg.word("enable_moe_block") is True


def _place(at: Scope) -> Scope:
    """The module, or the layer itself (Gemma 4)."""
    return at if at.has(FACTORS) else at.child(*MODULES)


def says(layer: Layer) -> bool:
    cfg = layer.cfg
    if cfg.word("enable_moe_block") is False or cfg.word("is_moe") is False:
        for keys in (NUM_EXPERTS, TOP_K, WIDTH[:1], ("norm_topk_prob",)):
            cfg.word(*keys)
        return False
    return layer.ffn_word in ("sparse", "hash", "") and cfg.says(*NUM_EXPERTS)


def read(layer: Layer) -> Moe:
    cfg, at = layer.cfg, _place(layer.at)
    experts = cfg.get("moe.num_experts", *NUM_EXPERTS, derive=lambda: _experts(at))
    groups, top_groups, group_score = _groups(layer)
    width = cfg.get("moe.intermediate", *WIDTH)
    cfg.word("moe_norm_min")  # Ernie: a bound that no sum of k softmax scores falls below
    cfg.word("intermediate_size_mlp", "prefix_dense_intermediate_size")
    cfg.word("ffn_config.hidden_size")  # DBRX states the width a second time
    cfg.word("mlp_bias")  # of dense layers; where experts have biases the tensors tell
    cfg.word("intermediate_size")  # of dense layers, where the experts have a width of their own
    cfg.word("experts_per_token")  # gpt-oss states num_experts_per_tok a second time
    shared = _shared_width(layer, at, width)
    layout = _layout(at, layer, width)
    return Moe(
        num_experts=experts,
        top_k=cfg.get("moe.top_k", *TOP_K),
        intermediate=width,
        score=_score(layer, at),
        activation=activation(layer, "experts"),
        shared_activation=activation(layer, "shared"),
        num_groups=groups,
        top_groups=top_groups,
        group_score=group_score,
        left_out=cfg.get("moe.left_out", assume="lowest") if groups > 1 else "lowest",
        renormalise=bool(
            cfg.get("moe.renormalise", "norm_topk_prob", "moe_renormalize", assume=True)
        ),
        renormalise_eps=cfg.get("moe.renormalise_eps", default=1e-20 if _sigmoid(layer) else 0.0),
        scale=cfg.get(
            "moe.scale",
            "routed_scaling_factor",
            "router_scaling_factor",
            "route_scale",
            "moe_routed_scaling_factor",
            default=1.0,
        ),  # fmt: skip
        bias=_bias(layer, at),
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
        interleaved=_interleaved(layer, at, layout),
        softcap=cfg.get("moe.softcap", "moe_router_logit_softcapping", default=None) or None,
        weigh_input=bool(cfg.get("moe.weigh_input", "moe_apply_router_weight_on_input",
                                 default=False)),
        beside=beside(layer),
        average=cfg.word("shared_expert_combination_strategy") == "average" and shared > 0,
    )  # fmt: skip


def _experts(at: Scope) -> int | None:
    for pattern in UP:
        if (count := at.count(pattern)) is not None:
            return count
    return at.dim(0, *FUSED_IN, *(f"{name}.weight" for name in ROUTER))


def _groups(layer: Layer) -> tuple[int, int, str]:
    """(number of groups, groups kept, a group's score). DeepSeek-V2's two methods rank groups by
    their best expert, or ignore them; later models sum the two best."""
    cfg = layer.cfg
    groups = cfg.get("moe.num_groups", "n_group", "num_expert_group", default=1)
    kept = cfg.get("moe.top_groups", "topk_group", default=1)
    method = cfg.word("topk_method")
    if method == "greedy":
        return cfg.note("moe.num_groups", 1, "config", "config.json:topk_method"), 1, "top2"
    if method == "group_limited_greedy":
        return groups, kept, cfg.note("moe.group_score", "max", "config", "config.json:topk_method")
    return groups, kept, cfg.get("moe.group_score", default="top2")


def _score(layer: Layer, at: Scope) -> str:
    cfg = layer.cfg
    word = cfg.word("scoring_func", "moe_router_activation_func", "score_function",
                    "moe_router_score_function")  # fmt: skip
    choice = cfg.word("expert_selection_fn")  # Command A ranks logits, then takes one of these
    if choice in ("softmax", "sigmoid"):
        kind = "topk_softmax" if choice == "softmax" else "sigmoid"
        return cfg.note("moe.score", kind, "config", "config.json:expert_selection_fn")
    if word in SCORES:
        return cfg.note("moe.score", word, "config", "scoring function")
    if word is not None:
        source = f"the scoring function {word!r} is unknown"
        return cfg.note("moe.score", "softmax", "assumed", source, decisive=True)
    return cfg.get(
        "moe.score",
        derive=lambda: "sigmoid" if at.has(*BIAS) and "moe.score" not in cfg.known else None,
        assume="softmax", decisive=True,
    )  # fmt: skip


def _sigmoid(layer: Layer) -> bool:
    fact = layer.cfg.facts.get("moe.score")
    return fact is not None and fact.value in ("sigmoid", "sqrtsoftplus")


def _bias(layer: Layer, at: Scope) -> bool:
    """Whether selection has a bias; promised by a word or our tables it is expected, so that the
    proof names it where it is missing."""
    cfg = layer.cfg
    method = cfg.word("topk_method")
    switch = cfg.word("use_routing_bias")
    if layer.ffn_word == "hash" or at.has(*TABLE):
        return False
    if at.has(*BIAS) or layer.at.has(FAR_BIAS):
        return cfg.note("moe.bias", True, "header", "a bias beside the router")
    if method is not None:
        return cfg.note("moe.bias", method == "noaux_tc", "config", "config.json:topk_method")
    if switch is not None:
        return cfg.note("moe.bias", bool(switch), "config", "config.json:use_routing_bias")
    if at.names:
        return bool(cfg.get("moe.bias", default=False))
    return bool(cfg.get("moe.bias", default=_sigmoid(layer)))


def _shared_width(layer: Layer, at: Scope, width: int) -> int:
    cfg = layer.cfg
    cfg.word("shared_moe_mode")  # MiniMax-M1: the rule of a shared expert whose width it gives as 0
    own = cfg.word(
        "shared_expert_intermediate_size", "shared_intermediate_size",
        "moe_shared_expert_intermediate_size", "shared_experts_intermediate_size",
    )  # fmt: skip
    count = cfg.word("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
    if count is None and own is None:
        for module in SHARED:
            rows = at.dim(0, f"{module}.up_proj.weight", f"{module}.w3.weight")
            if rows is not None:
                return cfg.note("moe.shared", rows, "header", "rows of the shared expert")
        return width if not at.names and cfg.get("moe.shared_one", default=False) else 0
    if own is not None:
        return cfg.note("moe.shared", own * (1 if count is None else count), "config", "its width")
    return cfg.note("moe.shared", width * (count or 0), "config", "count times the experts' width")


def _layout(at: Scope, layer: Layer, width: int) -> str:
    """Where gate_up_proj is square, down_proj is not, and the other way round."""
    if not at.names:
        return layer.cfg.get("moe.layout", default="each")
    if at.has(GATE[0].format(e=0), GATE[1].format(e=0)):
        return "each"
    if at.has(ROWS[0]):
        return layer.cfg.note("moe.layout", "rows", "header", "experts.mlp.w1")
    hidden = layer.shape.hidden_size
    for names, transposed in ((FUSED_IN, (hidden, 2 * width)), (FUSED_OUT, (width, hidden))):
        shape = at.shape(*names)
        if shape is not None and len(shape) == 3 and shape[1] != shape[2]:
            kind = "transposed" if shape[1:] == transposed else "fused"
            return layer.cfg.note("moe.layout", kind, "header", f"dims of {names[0]}")
    return "fused" if at.has(*FUSED_IN) else "each"


def _interleaved(layer: Layer, at: Scope, layout: str) -> bool:
    """gpt-oss alternates gate and up, in its transposed form as in its blocks; the biases of the
    experts are its mark."""
    cfg = layer.cfg
    if layout == "each":
        return False
    if "moe.interleaved" not in cfg.known and at.has("experts.gate_up_proj_bias"):
        return cfg.note("moe.interleaved", True, "known", "biases of the experts", decisive=True)
    return bool(cfg.get("moe.interleaved", default=False, decisive=True))


def flow(spec: Moe, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    outer, at = at, _place(at)
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
