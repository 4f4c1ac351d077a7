"""Mixture of experts: router, experts, shared expert, latent width (architectures.md [NGR], 3.2)."""

from dataclasses import dataclass

from day0.ir.weight import Expr, Permute, Pick, Stack
from day0.mechanisms.builder import Builder
from day0.mechanisms.glu import Activation, activation, feed_forward
from day0.mechanisms.names import Scope
from day0.mechanisms.norm import weighted_rms
from day0.mechanisms.spec import Flow, Layer, Mechanism

MODULES = ("block_sparse_moe", "mlp", "ffn", "feed_forward", "")
ROUTER = ("gate", "router")
BIAS = ("gate.e_score_correction_bias", "gate.expert_bias", "e_score_correction_bias", "gate.bias",
        "expert_bias")  # fmt: skip
TABLE = ("gate.tid2eid",)
GATE = ("experts.{e}.gate_proj.weight", "experts.{e}.w1.weight")
UP = ("experts.{e}.up_proj.weight", "experts.{e}.w3.weight")
DOWN = ("experts.{e}.down_proj.weight", "experts.{e}.w2.weight")
SHARED = ("shared_experts", "shared_expert", "shared_mlp")
NUM_EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts",
               "num_moe_experts")  # fmt: skip
TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts",
         "topk")  # fmt: skip
WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moe:
    """`layout` of the stored experts: "each" (one tensor an expert and matrix), "fused" ([E, 2I, H]
    with rows [gate | up], and [E, H, I]), "transposed" ([E, H, 2I] with gate and up columns
    interleaved, and [E, I, H]; gpt-oss). `shared` channels of the shared expert (0: none), gated
    by one sigmoid value if `shared_gate`. `latent` > 0: the experts' own width (Kimi-K3).
    `hashed`: experts come from a table by token id (DeepSeek-V4)."""

    num_experts: int
    top_k: int
    intermediate: int
    score: str
    activation: Activation
    shared_activation: Activation
    num_groups: int = 1
    top_groups: int = 1
    group_score: str = "top2"
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


def sees(layer: Layer) -> bool:
    at = layer.at.child(*MODULES)
    return at.has_module("experts") or at.has(
        "experts.gate_up_proj", "experts.0.w1.weight", "experts.0.gate_proj.weight"
    )


def says(layer: Layer) -> bool:
    return layer.ffn_word in ("sparse", "hash", "") and layer.cfg.says(*NUM_EXPERTS)


def read(layer: Layer) -> Moe:
    cfg, at = layer.cfg, layer.at.child(*MODULES)
    experts = cfg.get("moe.num_experts", *NUM_EXPERTS, derive=lambda: _experts(at))
    groups = cfg.get("moe.num_groups", "n_group", "num_expert_group", default=1)
    width = cfg.get("moe.intermediate", *WIDTH)
    shared = _shared_width(layer, at, width)
    return Moe(
        num_experts=experts,
        top_k=cfg.get("moe.top_k", *TOP_K),
        intermediate=width,
        score=_score(layer, at),
        activation=activation(layer, "experts"),
        shared_activation=activation(layer, "shared"),
        num_groups=groups,
        top_groups=cfg.get("moe.top_groups", "topk_group", default=1),
        group_score=cfg.get("moe.group_score", default="top2"),
        renormalise=bool(
            cfg.get("moe.renormalise", "norm_topk_prob", "moe_renormalize", assume=True)
        ),
        renormalise_eps=cfg.get("moe.renormalise_eps", default=1e-20 if _sigmoid(layer) else 0.0),
        scale=cfg.get(
            "moe.scale", "routed_scaling_factor", "router_scaling_factor", "route_scale",
            "moe_routed_scaling_factor", default=1.0,
        ),  # fmt: skip
        bias=_bias(layer, at),
        router_bias=at.has(*(f"{name}.bias" for name in ROUTER)) and not at.has(*BIAS)
        if at.names
        else bool(cfg.get("moe.router_bias", default=False)),
        expert_bias=at.has("experts.gate_up_proj_bias")
        if at.names
        else bool(cfg.get("moe.expert_bias", default=False)),
        hashed=at.has(*TABLE) if at.names else layer.ffn_word == "hash",
        shared=shared,
        shared_gate=at.has("shared_expert_gate.weight")
        if at.names
        else bool(shared and cfg.get("moe.shared_gate", default=False)),
        latent=cfg.get("moe.latent", "routed_expert_hidden_size", default=0) or 0,
        latent_norm=bool(cfg.get("moe.latent_norm", "latent_moe_use_norm", default=False)),
        norm_eps=layer.shape.norm_eps,
        layout=_layout(at, layer, width),
    )


def _experts(at: Scope) -> int | None:
    for pattern in UP:
        if (count := at.count(pattern)) is not None:
            return count
    return at.dim(0, "experts.gate_up_proj", "gate.weight", "router.weight")


def _score(layer: Layer, at: Scope) -> str:
    cfg = layer.cfg
    word = cfg.word("scoring_func", "moe_router_activation_func", "score_function",
                    "moe_router_score_function")  # fmt: skip
    if word is not None:
        return cfg.note("moe.score", str(word), "config", "scoring function")
    return cfg.get(
        "moe.score", derive=lambda: "sigmoid" if at.has(*BIAS) else None, assume="softmax",
        decisive=True,
    )  # fmt: skip


def _sigmoid(layer: Layer) -> bool:
    fact = layer.cfg.facts.get("moe.score")
    return fact is not None and fact.value != "softmax"


def _bias(layer: Layer, at: Scope) -> bool:
    if at.names:
        return at.has(*BIAS) and not at.has(*TABLE)
    if layer.ffn_word == "hash":
        return False
    method = layer.cfg.word("topk_method")
    if method is not None:
        return layer.cfg.note("moe.bias", method == "noaux_tc", "config", "config.json:topk_method")
    return bool(layer.cfg.get("moe.bias", default=_sigmoid(layer)))


def _shared_width(layer: Layer, at: Scope, width: int) -> int:
    cfg = layer.cfg
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
        return 0
    if own is not None:
        return cfg.note("moe.shared", own * (1 if count is None else count), "config", "its width")
    return cfg.note("moe.shared", width * count, "config", "count times the experts' width")


def _layout(at: Scope, layer: Layer, width: int) -> str:
    if not at.names or at.has(GATE[0].format(e=0), GATE[1].format(e=0)):
        return "each"
    if not at.has("experts.gate_up_proj"):
        return "each"
    shape = at.shape("experts.gate_up_proj")
    transposed = layer.cfg.get(
        "moe.interleaved",
        derive=lambda: None if shape is None or shape[1] == shape[2] else shape[2] == 2 * width,
        default=False,
    )
    if transposed:
        return "transposed"
    return "blocks" if shape is None and at.has("experts.gate_up_proj_bias") else "fused"


def flow(spec: Moe, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    at = at.child(*MODULES)
    logits = _logits(spec, b, x, at)
    inputs, weights = {"logits": logits}, {}
    if spec.hashed:
        inputs["ids"] = flow.inputs["ids"]
        vocab = at.shape(*TABLE)
        rows = vocab[0] if vocab else flow.kept["vocab_size"]
        weights["table"] = b.weight("hash_table", at.leaf(TABLE, (rows, spec.top_k)), role="router")
    elif spec.bias:
        weights["bias"] = b.weight("bias", at.leaf(BIAS, (spec.num_experts,)), role="router")
    route = b.op(
        "moe_route", "route", inputs, weights,
        score=spec.score, top_k=spec.top_k, num_groups=spec.num_groups,
        top_groups=spec.top_groups, group_score=spec.group_score, renormalise=spec.renormalise,
        renormalise_eps=spec.renormalise_eps, scale=float(spec.scale),
    )  # fmt: skip
    inner = x
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
        **spec.activation.attrs(),
    )["y"]
    if spec.latent:
        if spec.latent_norm:
            y = weighted_rms(
                b, "latent_norm", y, at, "routed_expert_norm.weight",
                eps=spec.norm_eps, size=spec.latent,
            )  # fmt: skip
        y = b.project("latent_up", y, at, "routed_expert_up_proj", b.width(x), role="dense")
    return _with_shared(spec, b, x, y, at)


def _logits(spec: Moe, b: Builder, x: str, at: Scope) -> str:
    names = tuple(f"{name}.weight" for name in ROUTER)
    bias = None
    if spec.router_bias:
        bias = at.leaf(tuple(f"{name}.bias" for name in ROUTER), (spec.num_experts,))
    source = at.leaf(names, (spec.num_experts, b.width(x)))
    return b.linear("router", x, source, role="router", bias=bias)


def _with_shared(spec: Moe, b: Builder, x: str, y: str, at: Scope) -> str:
    if not spec.shared:
        return y
    with b.at("shared"):
        inner = at.child(*SHARED)
        shared = feed_forward(
            b, x, inner, spec.shared, spec.shared_activation, role="shared_expert"
        )
        if spec.shared_gate:
            gate = b.project("gate", x, at, "shared_expert_gate", 1, role="router")
            inputs = {"x": shared, "gate": gate}
            shared = b.op("gate", "gated", inputs, activation="sigmoid", num_heads=1)["y"]
    return b.op("add", "sum", {"a": y, "b": shared})["y"]


def _expert_weights(spec: Moe, b: Builder, at: Scope, width: int) -> dict[str, str]:
    e, i = spec.num_experts, spec.intermediate
    sources: dict[str, Expr] = {}
    if spec.layout == "each":
        sources["gate"] = _each(at, GATE, e, (i, width))
        sources["up"] = _each(at, UP, e, (i, width))
        sources["down"] = _each(at, DOWN, e, (width, i))
    elif spec.layout == "fused":
        both = at.leaf("experts.gate_up_proj", (e, 2 * i, width))
        sources["gate"], sources["up"] = (
            Pick(of=both, dim=1, period=2 * i, start=s, stop=s + i) for s in (0, i)
        )
        sources["down"] = at.leaf("experts.down_proj", (e, width, i))
    elif spec.layout == "blocks":  # mxfp4 blocks are stored [E, out, in]: gpt-oss
        both = at.leaf("experts.gate_up_proj", (e, 2 * i, width))
        sources["gate"], sources["up"] = (
            Pick(of=both, dim=1, period=2, start=s, stop=s + 1) for s in (0, 1)
        )
        sources["down"] = at.leaf("experts.down_proj", (e, width, i))
    else:
        both = at.leaf("experts.gate_up_proj", (e, width, 2 * i))
        sources["gate"], sources["up"] = (
            Permute(of=Pick(of=both, dim=2, period=2, start=s, stop=s + 1), order=(0, 2, 1))
            for s in (0, 1)
        )
        sources["down"] = Permute(of=at.leaf("experts.down_proj", (e, i, width)), order=(0, 2, 1))
    weights = {name: b.weight(name, source, role="experts") for name, source in sources.items()}
    if spec.expert_bias:
        both = at.leaf("experts.gate_up_proj_bias", (e, 2 * i))
        for start, name in ((0, "gate_bias"), (1, "up_bias")):
            rows = Pick(of=both, dim=1, period=2, start=start, stop=start + 1)
            weights[name] = b.weight(name, rows, role="experts")
        leaf = at.leaf("experts.down_proj_bias", (e, width))
        weights["down_bias"] = b.weight("down_bias", leaf, role="experts")
    return weights


def _each(at: Scope, spellings: tuple[str, ...], count: int, dims: tuple[int, int]) -> Stack:
    return at.stack(spellings, count, dims)


MOE = Mechanism(stem="moe", spec=Moe, sees=sees, says=says, read=read, flow=flow)
