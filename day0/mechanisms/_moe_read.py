"""What config words and tensors say of experts, and the names they are stored under."""

from day0.mechanisms.names import Scope
from day0.mechanisms.spec import Layer

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


def beside(layer: Layer) -> bool:
    """Whether the layer has experts beside its dense feed-forward."""
    if layer.at.names:
        return layer.at.has(FACTORS)
    return layer.cfg.word("enable_moe_block") is True


def place(at: Scope) -> Scope:
    """The module, or the layer itself (Gemma 4)."""
    return at if at.has(FACTORS) else at.child(*MODULES)


def experts(at: Scope) -> int | None:
    for pattern in UP:
        if (count := at.count(pattern)) is not None:
            return count
    return at.dim(0, *FUSED_IN, *(f"{name}.weight" for name in ROUTER))


def groups(layer: Layer) -> tuple[int, int, str]:
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


def score(layer: Layer, at: Scope) -> str:
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


def sigmoid(layer: Layer) -> bool:
    fact = layer.cfg.facts.get("moe.score")
    return fact is not None and fact.value in ("sigmoid", "sqrtsoftplus")


def bias(layer: Layer, at: Scope) -> bool:
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
    return bool(cfg.get("moe.bias", default=sigmoid(layer)))


def shared_width(layer: Layer, at: Scope, width: int) -> int:
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


def layout(at: Scope, layer: Layer, width: int) -> str:
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


def interleaved(layer: Layer, at: Scope, layout: str) -> bool:
    """gpt-oss alternates gate and up, in its transposed form as in its blocks; the biases of the
    experts are its mark."""
    cfg = layer.cfg
    if layout == "each":
        return False
    if "moe.interleaved" not in cfg.known and at.has("experts.gate_up_proj_bias"):
        return cfg.note("moe.interleaved", True, "known", "biases of the experts", decisive=True)
    return bool(cfg.get("moe.interleaved", default=False, decisive=True))
