"""Facts whose value is one of a few words: what --facts may state for them."""

from collections.abc import Mapping

from day0.mechanisms.config_kinds import NO, Kind

_PAIRINGS = ("half", "interleaved")
_PLACES = ("first", "last")
_WORDS: Mapping[str, tuple[str, ...]] = {
    "dtype": ("bf16", "fp16", "fp32"),
    "ffn.function": ("silu", "gelu", "gelu_tanh", "relu2", "relu", "situ", "swigluoai"),
    "gqa.qk_norm": ("none", "head", "full"),
    "gqa.out_gate": ("none", "fused"),
    "gqa.rope_pairing": _PAIRINGS,
    "mla.out_gate": ("none", "head", "element", "fused"),
    "mla.rope_pairing": _PAIRINGS,
    "indexer.q_input": ("q_latent", "hidden"),
    "indexer.rope_pairing": _PAIRINGS,
    "indexer.rope_place": _PLACES,
    "shared_kv.rope_pairing": _PAIRINGS,
    "shared_kv.rope_place": _PLACES,
    "moe.layout": ("each", "fused", "transposed"),
    "moe.group_score": ("top2", "max"),
    "moe.left_out": ("lowest", "zero"),
    "moe.score": ("softmax", "sigmoid", "sqrtsoftplus", "topk_softmax"),
    "hyper.variant": ("sinkhorn", "identity"),
    "hyper.end": ("head", "mean"),
    "mtp.hidden": ("normed", "raw"),
    "mtp.form": ("tail", "module"),
}
# Facts that have one path for each kind of layer or table: the last component is the kind's.
_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "norm.arrangement": ("pre", "post", "sandwich"),
    "rope.scaling": ("default", "linear", "dynamic", "yarn", "llama3", "longrope", "proportional"),
}


def kind_of(path: str) -> Kind | None:
    """The kind of a fact that takes one of a few words; None for all others."""
    plain = path.partition("@")[0]
    words = _WORDS.get(plain) or _FAMILIES.get(plain) or _FAMILIES.get(plain.rpartition(".")[0])
    if words is None:
        return None
    return Kind(
        says=f"one of {', '.join(words)}",
        take=lambda value: value if value in words else NO,
    )
