"""What config words and tensors say of grouped-query attention beside its sizes."""

import sys

from day0.errors import Day0Error
from day0.mechanisms._gqa_weights import Q, named
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.norm import arrangement
from day0.mechanisms.rope import Rope, Table, table
from day0.mechanisms.spec import Layer

OUT = ("o_proj", "out_proj", "wo", "dense", "c_proj", "Wo")
Q_NORM = ("q_norm", "query_layernorm", "q_layernorm")
K_NORM = ("k_norm", "key_layernorm", "k_layernorm")
SINKS = ("sinks", "softmax_offset", "attention_sink_bias")
GATE = ("gate_proj", "g_proj")


def scale(layer: Layer, head_dim: int) -> float:
    """head_dim^-1/2 unless the config gives its own."""
    own = layer.cfg.word("query_pre_attn_scalar")
    if own:
        return layer.cfg.note("gqa.scale", own**-0.5, "config", "query_pre_attn_scalar")
    return layer.cfg.get(
        "gqa.scale", "attention_multiplier", "attn_config.softmax_scale",
        default=max(head_dim, 1) ** -0.5,
    )  # fmt: skip


def window(layer: Layer) -> int:
    """Tokens that a row sees, itself among them; 0: all."""
    if layer.word not in ("sliding", "chunked"):
        return 0
    layer.cfg.word("sliding_window_size")  # MiMo-V2 states both
    if layer.word == "chunked":
        return layer.cfg.get("gqa.window", "attention_chunk_size", "sliding_window")
    if "gqa.window_half" in layer.cfg.known:  # a window on both sides, of which one remains
        span = layer.cfg.word("local_attention")
        return layer.cfg.note("gqa.window", (span or 128) // 2, "config", "half of local_attention")
    return layer.cfg.get(
        "gqa.window", "sliding_window", "sliding_window_size", "attention_chunk_size",
        "local_attention",
    )  # fmt: skip


def alibi(layer: Layer) -> float:
    """The bias of ALiBi at its largest slope's exponent (8 everywhere so far); 0: none."""
    cfg = layer.cfg
    word = cfg.word("alibi", "attn_config.alibi")
    if word is not None:
        most = cfg.word("attn_config.alibi_bias_max") or 8
        return cfg.note("gqa.alibi", float(most) if word else 0.0, "config", "alibi", decisive=True)
    return float(cfg.get("gqa.alibi", default=0.0))


def rope(layer: Layer, head_dim: int) -> Rope | None:
    cfg = layer.cfg
    label = {"sliding": "sliding_attention"}.get(layer.word, "full_attention")
    cfg.word("num_key_value_heads")
    cfg.word("attn_config.rope_theta")  # DBRX: restates rope_theta
    cfg.word("initial_context_length")  # gpt-oss: restates original_max_position_embeddings
    theta = _own_theta(layer)
    if _listed_no_rope(layer) or theta == 0:
        return None
    if cfg.get(f"gqa.no_rope.{label}", assume=False):
        return None
    found = table(cfg, label, *_theta_keys(layer))
    if found is None:
        return _without_words(layer, label)
    # Gemma 3's own files scale the table of full layers alone.
    local = layer.word == "sliding" and cfg.says("rope_local_base_freq")
    return Rope(
        dims=_rope_dims(layer, head_dim, found.partial),
        theta=theta or found.theta,
        scaling="default" if local else found.scaling,
        args=() if local else found.args,
        inverse=bool(cfg.get("gqa.rope_inverse", default=False)),
        pairing=cfg.get("gqa.rope_pairing", assume="half", decisive=_doubtful(layer, found)),
    )


def _doubtful(layer: Layer, found: Table) -> bool:
    """Marks of makers whose models turn pairs of either kind: a part of the head (GLM), parallel
    branches (Cohere), GLM-4's names of norms. Elsewhere half-split pairs are all but universal."""
    return (
        found.partial not in (None, 1.0)
        or arrangement(layer) == "parallel"
        or layer.at.has("post_self_attn_layernorm.weight")
    )


def _theta_keys(layer: Layer) -> tuple[str, ...]:
    return ("rope_local_base_freq", "swa_rope_theta") if layer.word == "sliding" else ()


def _own_theta(layer: Layer) -> float | None:
    """The layer's own base where the config lists one a layer; 0 turns rotary embedding off."""
    listed = layer.cfg.word("layer_rope_theta")
    return None if listed is None else float(listed)


def _without_words(layer: Layer, label: str) -> None:
    """No rotary words: no rotary embedding, which only some types are known to mean by it."""
    cfg = layer.cfg
    path = f"gqa.no_rope_without_words.{label}"
    if "gqa.no_rope_without_words" in cfg.known or cfg.says("rope_parameters", "rope_scaling"):
        cfg.note(path, True, "config", "no rotary words", decisive=True)
    elif cfg.says("alibi", "attn_config.alibi") or "position.offset" in cfg.facts:
        cfg.note(path, True, "config", "other positions", decisive=True)
    else:
        cfg.get(path, assume=True, decisive=True)


def _rope_dims(layer: Layer, head_dim: int, partial: float | None) -> int:
    cfg = layer.cfg
    rotary = cfg.word("rotary_dim")
    if partial is not None:
        cfg.note("gqa.partial", partial, "config", "partial rotary factor", decisive=True)
        return int(head_dim * partial)
    if rotary:
        return cfg.note("gqa.rope_dims", int(rotary), "config", "config.json:rotary_dim")
    return int(head_dim * cfg.get("gqa.partial", default=1.0, decisive=True))


def _listed_no_rope(layer: Layer) -> bool:
    cfg = layer.cfg
    listed = cfg.word("no_rope_layers")
    interval = cfg.word("no_rope_layer_interval")
    if listed is not None and layer.index < len(listed):
        return not listed[layer.index]
    return bool(interval) and (layer.index + 1) % interval == 0


def qk_norm(layer: Layer, at: Scope, head_dim: int) -> str:
    """The stored weight's size tells the kind. Where it is not stored but the config or our
    tables promise it, it is expected, so that the proof names the missing tensor. "bare": a norm
    of each head that has no weight."""
    cfg = layer.cfg
    word = cfg.word("use_qk_norm", "qk_layernorm")
    cfg.word("qk_norm_type")  # MiniMax-M3: per_head, as the weight's size tells
    shape = at.shape(*named(Q_NORM))
    if shape is not None:
        # Cohere's norm of heads has a row of weights for each of them.
        kind = "head" if shape[0] == head_dim else "heads" if len(shape) == 2 else "full"
        return cfg.note("gqa.qk_norm", kind, "header", "rows of q_norm")
    if "gqa.qk_norm" in cfg.known and cfg.known["gqa.qk_norm"][0] == "bare":
        return cfg.get("gqa.qk_norm") if word is not False else "none"
    if word and at.names and not _stored_anywhere(layer):
        return cfg.get("gqa.qk_norm", assume="bare", decisive=True)
    if word is not None:
        kind = "head" if word else "none"
        return cfg.note("gqa.qk_norm", kind, "config", "config.json:use_qk_norm")
    return cfg.get("gqa.qk_norm", default="none")


def _stored_anywhere(layer: Layer) -> bool:
    """Whether another layer stores a norm of queries."""
    names = tuple(f"{m}.{name}" for m in ("self_attn", "attention") for name in named(Q_NORM))
    return any(other.has(*names) for other in layer.at.other_layers())


def out_gate(layer: Layer, at: Scope, heads: int, value_dim: int) -> str:
    """ "fused": q_proj holds [q | gate] a head; "element", "head": a matrix of its own, with one
    row for each channel or for each head."""
    cfg, width = layer.cfg, heads * value_dim
    word = cfg.word("attn_output_gate", "attention_output_gate", "use_attention_gate")
    rows = at.dim(0, *named(GATE))
    if rows in (heads, width):
        return cfg.note("gqa.out_gate", "head" if rows == heads else "element", "header",
                        "rows of the gate")  # fmt: skip
    rows = at.dim(0, *named(Q))
    if rows is not None and rows in (width, 2 * width):
        kind = "none" if rows == width else "fused"
        return cfg.note("gqa.out_gate", kind, "header", "rows of q_proj")
    if word is not None:
        kind = "fused" if word else "none"
        return cfg.note("gqa.out_gate", kind, "config", "config.json:attn_output_gate")
    return cfg.get("gqa.out_gate", default="none")


def first_sharing(layer: Layer) -> int:
    """The first layer that reads an earlier one's keys and values; beyond every number where none
    does (drafts have numbers behind the depth)."""
    shared = layer.cfg.word("num_kv_shared_layers")
    return layer.shape.num_layers - shared if shared else sys.maxsize


def kv_owner(layer: Layer) -> int:
    """Gemma's last layers read what the last layer of their kind before them wrote."""
    first = first_sharing(layer)
    if layer.index < first:
        return -1
    kinds = layer.owners.get("words", {})
    owner = max((i for i in range(first) if kinds.get(i) == layer.word), default=-1)
    if owner < 0:
        raise Day0Error(
            f"layer {layer.index} reads the keys and values of a {layer.word or 'full'} layer "
            f"before layer {first}, and there is none",
            hint="mend num_kv_shared_layers or layer_types in config.json",
        )
    return layer.cfg.note("gqa.kv_of", owner, "config", "config.json:num_kv_shared_layers")


def owned(b: Builder, owner: int) -> str:
    """The name of another layer's cache of keys and values."""
    name = f"layers.{owner}.mixer.kv"
    if name not in b.caches:
        raise Day0Error(
            f"layer {b.layer} reads the keys and values of layer {owner}, which keeps none",
            hint="mend num_kv_shared_layers in config.json",
        )
    return name


def keys_are_values(layer: Layer, at: Scope) -> bool:
    """Gemma 4's full layers may have one matrix for keys and values."""
    switch = layer.cfg.word("attention_k_eq_v")
    return bool(switch) and layer.word != "sliding"


def out_bias(layer: Layer, at: Scope) -> bool:
    """attention_bias means q, k and v in some types (GLM-4.5) and the output too in others."""
    cfg = layer.cfg
    if at.names and at.has(*named(OUT)):
        cfg.word("attention_out_bias", "use_bias")
        stored = at.has(*named(OUT, "bias"))
        return cfg.note("gqa.out_bias", stored, "header", "bias of the output projection")
    if "gqa.out_bias" in cfg.known:
        return bool(cfg.get("gqa.out_bias", "attention_out_bias"))
    return bool(
        cfg.get("gqa.out_bias", "attention_out_bias", "attention_bias", "use_bias", "bias",
                default=False)
    )  # fmt: skip
