"""Facts that neither config nor tensors state: grouped-query attention, plain decoders, GDN.

Each entry: `types` (model_type words, the decoder's own or its parent's) or `words` (config keys
that must all have a value), `without` (keys that must have none), `facts`, `source`. The first
entry that matches a fact wins. The value "norm.eps" stands for the config's own eps.
"""

# Types whose attention turns half-split pairs in every layer and whose norms are plain.
_PLAIN = ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral", "glm4_moe", "gpt_oss",
          "olmo_hybrid", "minimax", "minimax_m1", "minimax_text_01")  # fmt: skip
_QWEN_HYBRID = ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text")
_QWEN_HYBRID_MOE = ("qwen3_5_moe", "qwen3_5_moe_text")
_MINIMAX = ("minimax", "minimax_m1", "minimax_text_01")
_THREE_TO_ONE = ("linear", "linear", "linear", "full")
# Words of models that route, select or cache in other ways than the entry means.
_OTHERS = ("scoring_func", "use_routing_bias", "index_n_heads", "indexer_n_heads", "n_group",
           "sparse_attention_config", "first_k_dense_replace", "hc_mult")  # fmt: skip

KNOWN = (
    {
        "types": ("qwen2", "qwen2_moe", "qwen2_vl_text", "qwen2_5_vl_text", "seed_oss"),
        "facts": {"gqa.qkv_bias": True, "gqa.out_bias": False},
        "source": "transformers 5.24, modeling_qwen2",
    },
    {
        "types": ("qwen3", "qwen3_moe", *_QWEN_HYBRID, "qwen3_vl", "qwen3_vl_text",
                  "qwen3_vl_moe", "qwen3_vl_moe_text", "lara_mini"),
        "facts": {"gqa.qk_norm": "head"},
        "source": "transformers 5.24, modeling_qwen3",
    },
    {
        "types": ("mixtral", "minimax", "minimax_m1"),
        "facts": {"rope.theta_default": 1000000.0},
        "source": "transformers 5.24, configuration_mixtral: default_theta",
    },
    {
        "types": ("gpt_oss",),
        "facts": {"rope.theta_default": 150000.0},
        "source": "transformers 5.24, configuration_gpt_oss: default_theta",
    },
    {
        "types": ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "glm4_moe", *_QWEN_HYBRID,
                  "lara_mini"),
        "facts": {"rope.theta_default": 10000.0},
        "source": "transformers 5.24, modeling_rope_utils: default_theta",
    },
    {
        "types": ("glm4_moe",),
        "facts": {"gqa.out_bias": False, "gqa.partial": 0.5, "moe.score": "sigmoid",
                  "moe.bias": True},
        "source": "transformers 5.24, modeling_glm4_moe",
    },
    {
        "words": ("use_qk_norm", "n_group", "topk_group", "n_routed_experts"),
        "without": ("kv_lora_rank", "scoring_func", "score_function"),
        "facts": {"gqa.out_bias": False, "gqa.rope_pairing": "half", "moe.score": "sigmoid",
                  "moe.bias": True},
        "source": "GLM-4.5's words (modeling_glm4_moe)",
    },
    {
        "types": ("gpt_oss",),
        "facts": {"gqa.sink": True, "moe.score": "topk_softmax", "moe.renormalise": True,
                  "moe.router_bias": True, "moe.expert_bias": True, "moe.interleaved": True,
                  "moe.layout": "transposed",
                  "ffn.function": "swigluoai", "layers.period": ("sliding", "full")},
        "source": "transformers 5.24, modeling_gpt_oss",
    },
    {
        "words": ("swiglu_limit", "num_local_experts", "sliding_window"),
        "without": _OTHERS,
        "facts": {"moe.score": "topk_softmax", "moe.renormalise": True, "moe.interleaved": True,
                  "ffn.function": "swigluoai"},
        "source": "gpt_oss's words: a clamp and a window beside num_local_experts",
    },
    {
        "words": ("swiglu_alpha",),
        "facts": {"ffn.function": "swigluoai"},
        "source": "only swigluoai has an alpha (gpt_oss, minimax_m3)",
    },
    {
        "types": ("mixtral",),
        "facts": {"moe.score": "softmax", "moe.renormalise": True},
        "source": "transformers 5.24, modeling_mixtral",
    },
    {
        "words": ("num_local_experts", "router_jitter_noise"),
        "without": _OTHERS,
        "facts": {"moe.score": "softmax", "moe.renormalise": True},
        "source": "Mixtral's words (mixtral, minimax)",
    },
    {
        "types": _MINIMAX,
        "facts": {"moe.score": "softmax", "moe.renormalise": True, "residual.of_normed": True,
                  "lightning.norm_eps": 1e-6, "lightning.row_order": "q|k|v per head",
                  "lightning.slope": "geometric, falling with depth",
                  "layers.period": ("linear", "full")},
        "source": "transformers 5.24, modeling_minimax",
    },
    {
        "words": ("linear_attn_alpha_factor", "full_attn_alpha_factor", "mlp_alpha_factor"),
        "facts": {"residual.of_normed": True, "lightning.norm_eps": 1e-6,
                  "lightning.row_order": "q|k|v per head",
                  "lightning.slope": "geometric, falling with depth"},
        "source": "MiniMax-01's words (modeling_minimax)",
    },
    {
        "types": ("qwen3_moe",),
        "facts": {"moe.score": "softmax"},
        "source": "transformers 5.24, modeling_qwen3_moe",
    },
    {
        "words": ("norm_topk_prob", "mlp_only_layers", "decoder_sparse_step"),
        "without": (*_OTHERS, "sliding_window"),
        "facts": {"moe.score": "softmax"},
        "source": "Qwen's words for layers without experts (qwen3_moe, qwen3_next)",
    },
    {
        "words": ("norm_topk_prob", "mlp_only_layers", "decoder_sparse_step", "use_sliding_window"),
        "without": _OTHERS,
        "facts": {"moe.score": "softmax"},
        "source": "Qwen's words for layers without experts (qwen3_moe, qwen3_next)",
    },
    {
        "types": _QWEN_HYBRID_MOE,
        "facts": {"moe.score": "softmax", "moe.renormalise": True, "moe.shared_gate": True},
        "source": "transformers 5.24, modeling_qwen3_5_moe",
    },
    {
        "types": ("qwen3_next",),
        "facts": {"moe.score": "softmax", "moe.shared_gate": True},
        "source": "transformers 5.24, modeling_qwen3_next",
    },
    {
        "types": _QWEN_HYBRID,
        "facts": {"norm.zero_centered": True, "gqa.out_gate": "fused", "gqa.partial": 0.25,
                  "gqa.rope_pairing": "half", "gqa.no_rope.full_attention": False,
                  "gdn.gate": "silu", "gdn.norm_eps": "norm.eps", "layers.period": _THREE_TO_ONE},
        "source": "transformers 5.24, modeling_qwen3_next and modeling_qwen3_5",
    },
    {
        "words": ("linear_num_key_heads", "linear_value_head_dim",
                  "rope_parameters.partial_rotary_factor"),
        "without": ("linear_allow_neg_eigval", "sliding_window"),
        "facts": {"gqa.rope_pairing": "half", "norm.zero_centered": True,
                  "gqa.out_gate": "fused", "gdn.gate": "silu",
                  "gdn.norm_eps": "norm.eps",
                  "moe.score": "softmax", "moe.shared_gate": True, "moe.renormalise": True,
                  "gqa.qk_norm": "head"},
        "source": "Qwen's hybrids alone turn a part of the head beside a gated delta net",
    },
    {
        "words": ("linear_num_key_heads", "linear_value_head_dim", "partial_rotary_factor"),
        "without": ("linear_allow_neg_eigval", "sliding_window"),
        "facts": {"gqa.rope_pairing": "half", "norm.zero_centered": True,
                  "gqa.out_gate": "fused", "gdn.gate": "silu",
                  "gdn.norm_eps": "norm.eps",
                  "moe.score": "softmax", "moe.shared_gate": True, "moe.renormalise": True,
                  "gqa.qk_norm": "head"},
        "source": "Qwen's hybrids alone turn a part of the head beside a gated delta net",
    },
    {
        "types": ("lara_mini",),
        "facts": {"norm.zero_centered": False, "gqa.rope_pairing": "half",
                  "gqa.no_rope.full_attention": True, "gqa.no_rope.sliding_attention": False,
                  "moe.score": "softmax", "moe.shared_gate": False, "moe.layout": "fused",
                  "gdn.gate": "silu", "gdn.norm_eps": "norm.eps",
                  "layers.period": ("linear", "sliding", "linear", "full", "sliding")},
        "source": "transformers 5.24, modeling_lara_mini",
    },
    {
        "words": ("linear_num_key_heads", "sliding_window", "shared_expert_intermediate_size"),
        "without": ("linear_allow_neg_eigval", "partial_rotary_factor"),
        "facts": {"norm.zero_centered": False, "gqa.no_rope.full_attention": True,
                  "gqa.no_rope.sliding_attention": False, "moe.score": "softmax",
                  "moe.shared_gate": False, "gdn.gate": "silu", "gdn.norm_eps": "norm.eps",
                  "gqa.qk_norm": "head"},
        "source": "Lara's words: a window beside a gated delta net",
    },
    {
        "types": ("olmo_hybrid",),
        "facts": {"gqa.qk_norm": "full", "norm.arrangement.full": "post", "gdn.gate": "silu",
                  "gdn.norm_eps": 1e-5, "gqa.no_rope_without_words": True,
                  "layers.period": _THREE_TO_ONE},
        "source": "transformers 5.24, modeling_olmo_hybrid",
    },
    {
        "words": ("linear_allow_neg_eigval", "linear_num_key_heads"),
        "facts": {"norm.zero_centered": False, "gqa.qk_norm": "full",
                  "norm.arrangement.full": "post", "gqa.no_rope_without_words": True,
                  "gdn.gate": "silu", "gdn.norm_eps": 1e-5},
        "source": "OLMo-Hybrid's words (modeling_olmo_hybrid)",
    },
    {
        "types": _PLAIN,
        "facts": {"norm.zero_centered": False, "gqa.rope_pairing": "half",
                  "gqa.no_rope.full_attention": False, "gqa.no_rope.sliding_attention": False},
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": ("axk2", "deepseek_v2", "mistral4", "mistral_large4", "mistral_large4_text"),
        "facts": {"moe.left_out": "zero"},
        "source": "transformers 5.24: experts outside the chosen groups score 0 there",
    },
    {
        "types": (*_PLAIN, *_QWEN_HYBRID, "lara_mini", "deepseek_v3", "deepseek_v32",
                  "kimi_linear", "kimi_k2", "kimi_k25", "kimi_k3", "glm_moe_dsa", "glm5_next",
                  "glm5_next_text", "bailing_hybrid", "hy_v4", "dots3_note", "dots3_note_text"),
        "facts": {"moe.left_out": "lowest"},
        "source": "transformers 5.24: experts outside the chosen groups score -inf there",
    },
)  # fmt: skip
