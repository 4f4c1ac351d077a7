"""Facts that neither config nor tensors state: block-indexed attention and n-gram tables.

Each entry: `types` (model_type words, the decoder's own or its parent's) or `words` (config keys
that must all have a value), `without` (keys that must have none), `facts`, `source`. The first
entry that matches a fact wins.
"""

_MINIMAX_M3 = {
    "norm.zero_centered": True, "gqa.rope_pairing": "half", "gqa.qk_norm": "head",
    "gqa.no_rope.full_attention": False, "gqa.partial": 1.0, "ffn.function": "swigluoai",
    "moe.score": "sigmoid", "moe.bias": True, "moe.renormalise": True, "moe.renormalise_eps": 0.0,
    "moe.interleaved": False, "rope.theta_default": 5000000.0,
}  # fmt: skip
_QWEN4_EXP = {
    "norm.outside": True, "norm.no_final": True, "norm.zero_centered": True,
    "gqa.rope_pairing": "half", "gqa.no_rope.full_attention": False, "gqa.qk_norm": "head",
    "gqa.out_gate": "fused",
    "moe.score": "softmax", "moe.shared_gate": True,
}  # fmt: skip

KNOWN = (
    {
        "types": ("minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text"),
        "facts": _MINIMAX_M3,
        "source": "transformers 5.24, modeling_minimax_m3_vl",
    },
    {
        "words": ("index_topk_blocks", "index_block_size", "swiglu_alpha"),
        "facts": _MINIMAX_M3,
        "source": "MiniMax-M3's words (transformers 5.24, modeling_minimax_m3_vl)",
    },
    {
        "words": ("sparse_attention_config.sparse_topk_blocks", "swiglu_alpha"),
        "facts": _MINIMAX_M3,
        "source": "MiniMax-M3's words (transformers 5.24, modeling_minimax_m3_vl)",
    },
    {
        "words": ("hc_count", "hc_lowrank"),
        "facts": _QWEN4_EXP,
        "source": "transformers 5.24, modeling_qwen4_exp",
    },
    {
        "types": ("qwen4_exp", "qwen4_exp_text"),
        "facts": _QWEN4_EXP,
        "source": "transformers 5.24, modeling_qwen4_exp",
    },
)
