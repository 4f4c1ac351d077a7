"""What a feature means, in words: one table for `nearest` and `diff`, keyed by a path or its end.

A feature without a line here is told by its path and value.
"""

from collections.abc import Mapping

# Mechanism -> what its presence is called.
MECHANISMS = {
    "kda": "KDA layers",
    "gdn": "gated delta net layers",
    "lightning": "lightning attention layers",
    "mla": "latent attention (MLA) layers",
    "gqa": "softmax attention (GQA) layers",
    "sparse_gqa": "block-sparse attention layers",
    "shared_kv": "compressed shared-KV attention layers",
    "moe": "mixture-of-experts layers",
    "glu": "dense feed-forward layers",
    "unknown": "layers that nobody knows",
    "residual": "plain residual",
    "attn_residual": "attention residual",
    "hyper_connection": "hyper-connections",
    "hyper_gate": "gated hyper-connections",
}

# Path (or its end) -> (what it is called where there is one, where there is none). Numbers are
# there unless 0 or null, switches where true.
SWITCHES = {
    "kda.lower_bound": ("bounded decay gate of KDA", "unbounded decay gate of KDA (softplus)"),
    "kda.gate_rank": ("low-rank forget gate of KDA", "full-rank forget gate of KDA"),
    "kda.out_rank": ("low-rank output gate of KDA", "full-rank output gate of KDA"),
    "mla.q_rank": ("low-rank query of MLA", "query of MLA without a latent"),
    "mla.rope": ("rotary positions in MLA", "no positions in MLA (NoPE)"),
    "mla.indexer": ("indexer with top-k selection in MLA", ""),
    "mla.indexer.rope": ("rotary positions in the indexer", "no positions in the indexer (NoPE)"),
    "mla.indexer.pool": ("pooled indexer", "indexer over single tokens"),
    "mla.indexer.tail": ("open pool always selected", ""),
    "mla.topk_of": ("selection shared between layers", ""),
    "mla.kv_of": ("latents shared between layers", ""),
    "mla.window": ("sliding window in MLA", ""),
    "mla.sink": ("attention sink in MLA", ""),
    "mla.ssmax": ("queries of MLA scaled by position", ""),
    "mla.k_rope_norm": ("norm on the rotated keys of MLA", ""),
    "mla.learned_rope": ("learned rotary frequencies in MLA", ""),
    "indexer.ssmax": ("indexer queries scaled by position", ""),
    "gqa.rope": ("rotary positions in attention", "no positions in attention (NoPE)"),
    "gqa.window": ("sliding window in attention", ""),
    "gqa.softcap": ("soft cap on attention scores", ""),
    "gqa.sink": ("attention sink", ""),
    "gqa.qkv_bias": ("bias on q, k and v", ""),
    "gqa.out_bias": ("bias on the attention output", ""),
    "shared_kv.indexer": ("indexer over compressed entries", ""),
    "shared_kv.overlap": ("overlapping pools", ""),
    "shared_kv.ratio": ("compressed entries", "window alone, nothing compressed"),
    "moe.latent": ("latent MoE", ""),
    "moe.shared": ("shared expert", ""),
    "moe.shared_gate": ("gate on the shared expert", ""),
    "moe.hashed": ("experts chosen by token id", ""),
    "moe.bias": ("correction bias in expert selection", ""),
    "moe.router_bias": ("bias on router logits", ""),
    "moe.expert_bias": ("bias in the experts", ""),
    "moe.renormalise": ("renormalised expert weights", "expert weights as scored"),
    "moe.num_groups": ("expert groups", ""),
    "moe.top_groups": ("expert groups", ""),
    "activation.limit": ("clamped activation", ""),
    "glu.bias": ("bias in the feed-forward", ""),
    "norm.zero_centered": ("zero-centred norm weights", ""),
    "zero_centered": ("zero-centred norm weights", ""),
    "norm.rank": ("gated norms", ""),
    "norm.bias": ("bias in the norms", ""),
    "norm.weight": ("", "norms without a weight"),
    "norm.before.mixer": ("norm before the mixer", ""),
    "norm.before.ffn": ("norm before the feed-forward", ""),
    "norm.after.mixer": ("norm after the mixer", ""),
    "norm.after.ffn": ("norm after the feed-forward", ""),
    "attn_residual.normed_values": ("attention residual over normed sources", ""),
    "tied": ("head tied to the embedding", ""),
    "head_bias": ("bias on the head", ""),
    "softcap": ("soft cap on the logits", ""),
    "drafts": ("draft layer (MTP)", ""),
}

# Path (or its end) -> a sentence about a word; "{}" is the word, WORDS spells it. A value that
# stands for "none" has no sentence.
CHOICES = {
    "activation.function": "{} activation",
    "mla.out_gate": "output gate of MLA ({})",
    "gqa.out_gate": "output gate of attention ({})",
    "gqa.qk_norm": "norm on q and k ({})",
    "gdn.gate": "{} gate of the delta net",
    "moe.score": "{} expert scores",
    "moe.group_score": "groups ranked by {}",
    "rope.pairing": "{} rotary pairs",
    "rope.place": "rotary channels {} in a head",
    "rope.scaling": "rotary scaling {}",
    "norm.kind": "{} norms",
    "indexer.q_input": "indexer queries from {}",
    "hyper_connection.variant": "{} stream mix",
    "mtp.mixer": "draft with {}",
    "mtp.ffn": "draft with {}",
    "mtp.hidden": "draft reads the {} trunk output",
}
WORDS = {
    "situ": "SiTU",
    "silu": "SiLU",
    "gelu": "GELU",
    "gelu_tanh": "GELU (tanh)",
    "swigluoai": "clamped gpt-oss SwiGLU",
    "element": "per element",
    "head": "per head",
    "rms": "RMS",
    "layer": "layer",
    "q_latent": "the query latent",
    "hidden": "the layer input",
}

# Fields that say how tensors are stored, not what is computed.
STORED = ("layout", "interleaved", "a_log_size", "embed_first", "own_embedding", "own_head",
          "own_norm", "dtype", "state_format")  # fmt: skip
# Numbers that belong to a choice that is compared already, or to a formula's constants.
CONSTANTS = ("alpha", "beta", "linear_beta", "args", "latent_norm", "reset_id", "context_length")
# Sizes of which 0 has no meaning of its own: another feature says that.
DIMS = ("rope_dim",)


def end_of(table: Mapping[str, object], path: str) -> str | None:
    """The key of a table that is the path or the longest end of it."""
    while path not in table:
        _, dot, path = path.partition(".")
        if not dot:
            return None
    return path
