"""Facts that neither config nor tensors state: softmax decoders of all makers, by type.

Each entry: `types` (model_type words, the decoder's own or its parent's) or `words` (config keys
that must all have a value), `without` (keys that must have none), `facts`, `source`. The first
entry that matches a fact wins. The scale "sqrt_hidden" stands for the root of hidden_size.
"""

_NOPE_ON_FULL = {"gqa.no_rope.full_attention": True, "gqa.no_rope.sliding_attention": False}
_ROPE = {"gqa.no_rope.full_attention": False, "gqa.no_rope.sliding_attention": False}
# Types that turn half-split pairs, the ones that turn neighbours; the rest of 5.24's decoders.
_HALF = (
    "apertus", "apertus1p5_text", "arcee", "aria_text", "bitnet", "cwm", "dbrx", "diffllama",
    "doge",
    "dots1", "exaone", "exaone4", "exaone_moe", "falcon", "flex_olmo", "flint", "gemma", "gemma2",
    "gemma3_text", "gemma3", "gemma3n_text", "gemma3n", "gemma4_text", "gemma4",
    "gemma4_unified_text", "gemma4_unified", "gpt_neox", "gpt_neox_japanese", "granite",
    "granite_swa", "granitemoe", "granitemoe_swa", "granitemoeshared", "hunyuan_v1_dense",
    "hunyuan_v1_moe", "hy_v3", "hyperclovax", "internlm3", "iquestcoder", "jais2", "jetmoe",
    "kolibri1", "laguna", "mellum", "mimo_v2_flash", "minimax_m2", "ministral", "ministral3",
    "modernbert-decoder", "muse_glimmer_text", "muse_spark_text", "nanochat", "nemotron", "olmo",
    "olmo2", "olmo3", "olmoe", "persimmon", "phi", "phi3", "phi4_multimodal", "phimoe", "qwen2_moe",
    "qwen3_vl_text", "qwen3_vl_moe_text", "sarvam_moe", "seed_oss", "smollm3", "solar_open",
    "stablelm", "starcoder2", "step3p7_text", "vaultgemma", "beam", "afmoe", "cohere_compass_text",
    "glm4v_moe_text", "granite_docling_text", "hunyuan_vl_text", "qwen2_5_vl_text", "qwen2_vl_text",
)  # fmt: skip
_NEIGHBOURS = (
    "codegen", "cohere", "cohere2", "cohere2_moe", "ernie4_5",
    "ernie4_5_moe", "glm", "glm4", "glm4v_text", "glm_ocr_text", "helium", "llama4_text", "llama4",
)  # fmt: skip
_ZERO_CENTRED = ("gemma", "gemma2", "gemma3_text", "gemma3", "vaultgemma", "muse_glimmer_text")


KNOWN = (
    {
        "types": _ZERO_CENTRED,
        "facts": {"norm.zero_centered": True},
        "source": "transformers 5.24: norms of Gemma's kind multiply with 1 + weight",
    },
    {
        "types": ("gemma", "gemma2", "gemma3_text", "gemma3", "gemma3n_text", "gemma3n",
                  "gemma4_text", "gemma4", "gemma4_unified_text", "gemma4_unified", "vaultgemma"),
        "facts": {"embedding.scale": "sqrt_hidden"},
        "source": "transformers 5.24, modeling_gemma: embeddings times the root of hidden_size",
    },
    {
        "types": ("gemma4_text", "gemma4", "gemma4_unified_text", "gemma4_unified", "gemma3n_text",
                  "gemma3n"),
        "facts": {"gqa.scale": 1.0, "gqa.value_norm": True, "gqa.qk_norm": "head",
                  "norm.arrangement.full": "sandwich", "norm.arrangement.sliding": "sandwich"},
        "source": "transformers 5.24, modeling_gemma4 and modeling_gemma3n",
    },
    {
        "words": ("num_kv_shared_layers", "vocab_size_per_layer_input"),
        "facts": {"gqa.scale": 1.0, "gqa.value_norm": True, "embedding.scale": "sqrt_hidden",
                  "norm.zero_centered": False},
        "source": "Gemma's words for shared keys and per-layer embeddings (modeling_gemma4)",
    },
    {
        "words": ("query_pre_attn_scalar", "hidden_activation"),
        "facts": {"norm.zero_centered": True, "embedding.scale": "sqrt_hidden",
                  "gqa.rope_pairing": "half"},
        "source": "Gemma's words (modeling_gemma2 and modeling_gemma3)",
    },
    {
        "types": ("cohere2", "cohere2_moe", "exaone4", "exaone_moe", "afmoe", "flint", "kolibri1"),
        "facts": _NOPE_ON_FULL,
        "source": "transformers 5.24: rotary embedding in sliding layers only",
    },
    {
        "types": ("beam",),
        "facts": {**_NOPE_ON_FULL, "gqa.length_scale": (0.1, 2048), "residual.depth_scaled": True,
                  "moe.score": "sigmoid"},
        "source": "transformers 5.24, modeling_beam",
    },
    {
        "types": _HALF,
        "facts": {"gqa.rope_pairing": "half", **_ROPE},
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": _NEIGHBOURS,
        "facts": {"gqa.rope_pairing": "interleaved", **_ROPE},
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": ("nemotron",),
        "facts": {"norm.kind": "layer", "norm.zero_centered": True, "ffn.gated": False},
        "source": "transformers 5.24, modeling_nemotron: NemotronLayerNorm1P",
    },
    {
        "types": ("olmo",),
        "facts": {"norm.kind": "layer", "norm.bare": True, "norm.eps": 1e-5,
                  "embedding.norm": False},
        "source": "transformers 5.24, modeling_olmo: layer norms without parameters",
    },
    {
        "types": ("nanochat",),
        "facts": {"norm.bare": True, "norm.kind": "rms", "gqa.qk_norm": "bare",
                  "gqa.norm_last": True, "gqa.rope_inverse": True, "ffn.gated": False,
                  "embedding.norm": True},
        "source": "transformers 5.24, modeling_nanochat",
    },
    {
        "types": ("hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl_text"),
        "facts": {"gqa.norm_last": True, "moe.score": "softmax", "moe.renormalise": True},
        "source": "transformers 5.24, modeling_hunyuan_v1_dense and _moe",
    },
    {
        "types": ("bloom",),
        "facts": {"gqa.fused": "groups", "gqa.alibi": 8.0, "ffn.function": "gelu_tanh",
                  "ffn.activation": "gelu_tanh", "gqa.no_rope_without_words": True,
                  "ffn.gated": False},
        "source": "transformers 5.24, modeling_bloom",
    },
    {
        "types": ("mpt",),
        "facts": {"gqa.fused": "rows", "ffn.activation": "gelu", "gqa.no_rope_without_words": True,
                  "ffn.gated": False, "norm.eps": 1e-5, "norm.kind": "layer"},
        "source": "transformers 5.24, modeling_mpt",
    },
    {
        "types": ("gpt_neox", "gpt_neox_japanese", "persimmon"),
        "facts": {"gqa.fused": "groups", "ffn.gated": False, "rope.theta_default": 10000.0},
        "source": "transformers 5.24, modeling_gpt_neox",
    },
    {
        "types": ("codegen",),
        "facts": {"gqa.fused": "shards", "ffn.gated": False, "rope.theta_default": 10000.0},
        "source": "transformers 5.24, modeling_codegen",
    },
    {
        "types": ("falcon",),
        "facts": {"gqa.fused": "groups", "ffn.gated": False},
        "source": "transformers 5.24, modeling_falcon",
    },
    {
        "types": ("gpt_bigcode",),
        "facts": {"gqa.fused": "groups", "ffn.gated": False, "position.offset": 0,
                  "gqa.no_rope_without_words": True},
        "source": "transformers 5.24, modeling_gpt_bigcode",
    },
    {
        "types": ("opt", "biogpt"),
        "facts": {"position.offset": 2, "ffn.gated": False, "gqa.no_rope_without_words": True,
                  "gqa.qkv_bias": True, "gqa.out_bias": True, "norm.kind": "layer",
                  "norm.eps": 1e-5},
        "source": "transformers 5.24, modeling_opt and modeling_biogpt: the first two rows unused",
    },
    {
        "types": ("phi3", "phi4_multimodal", "sarvam_moe", "dbrx", "mpt"),
        "facts": {"gqa.fused": "rows"},
        "source": "transformers 5.24, modeling_phi3: queries, then keys, then values",
    },
    {
        "types": ("sarvam_moe",),
        "facts": {"moe.score": "sigmoid", "moe.bias": True},
        "source": "transformers 5.24, modeling_glm4_moe, the class of this model_type",
    },
    {
        "types": ("modernbert-decoder",),
        "facts": {"norm.kind": "layer", "norm.first_bare": True, "gqa.window_half": True,
                  "rope.theta_default": 10000.0},
        "source": "transformers 5.24, modeling_modernbert_decoder",
    },
    {
        "types": ("dbrx",),
        "facts": {"norm.kind": "layer", "norm.eps": 1e-5, "moe.score": "softmax",
                  "moe.renormalise": True},
        "source": "transformers 5.24, modeling_dbrx",
    },
    {
        "types": ("laguna",),
        "facts": {"gqa.gate_function": "softplus", "moe.score": "sigmoid", "moe.renormalise": True,
                  "moe.renormalise_eps": 0.0},
        "source": "transformers 5.24, modeling_laguna",
    },
    {
        "types": ("mimo_v2_flash", "afmoe", "exaone_moe", "dots1", "solar_open", "hy_v3",
                  "minimax_m2", "axk1", "glm4_moe_lite", "flint", "glm4v_moe_text"),
        "facts": {"moe.score": "sigmoid"},
        "source": "transformers 5.24, the router of this model_type",
    },
    {
        "types": ("afmoe",),
        "facts": {"moe.renormalise": True, "moe.renormalise_eps": 1e-20},
        "source": "transformers 5.24, modeling_afmoe",
    },
    {
        "types": ("kolibri1",),
        "facts": {"moe.score": "topk_sigmoid", "moe.bias": True, "moe.renormalise_eps": 0.0},
        "source": "transformers 5.24, modeling_kolibri1: logits are ranked, then sigmoid",
    },
    {
        "types": ("ernie4_5_moe",),
        "facts": {"moe.score": "softmax", "moe.renormalise": True, "moe.bias": True},
        "source": "transformers 5.24, modeling_ernie4_5_moe",
    },
    {
        "words": ("moe_norm_min", "moe_k"),
        "facts": {"moe.score": "softmax", "moe.renormalise": True, "moe.bias": True,
                  "gqa.rope_pairing": "interleaved"},
        "source": "Ernie's words (modeling_ernie4_5_moe)",
    },
    {
        "types": ("qwen2_moe", "olmoe", "flex_olmo", "mellum", "qwen3_vl_moe_text"),
        "facts": {"moe.score": "softmax"},
        "source": "transformers 5.24, the router of this model_type",
    },
    {
        "types": ("qwen3_vl_moe_text",),
        "facts": {"moe.renormalise": True},
        "source": "transformers 5.24, modeling_qwen3_vl_moe",
    },
    {
        "types": ("qwen2_moe",),
        "facts": {"moe.shared_gate": True, "gqa.qkv_bias": True, "gqa.out_bias": False},
        "source": "transformers 5.24, modeling_qwen2_moe",
    },
    {
        "types": ("granitemoe", "granitemoe_swa", "granitemoeshared", "aria_text"),
        "facts": {"moe.score": "topk_softmax", "moe.renormalise": False},
        "source": "transformers 5.24, the router of this model_type",
    },
    {
        "types": ("phimoe",),
        "facts": {"moe.score": "sparsemixer", "moe.renormalise": False, "norm.kind": "layer",
                  "norm.eps": 1e-5},
        "source": "transformers 5.24, modeling_phimoe",
    },
    {
        "types": ("llama4_text", "llama4"),
        "facts": {"moe.score": "topk_sigmoid", "moe.renormalise": False, "moe.weigh_input": True,
                  "moe.layout": "transposed", "gqa.qk_norm": "bare", "gqa.norm_last": True,
                  "gqa.norm_eps": "norm.eps", "gqa.norm_needs_rope": True},
        "source": "transformers 5.24, modeling_llama4",
    },
    {
        "types": ("muse_glimmer_text",),
        "facts": {"gqa.qk_norm": "bare", "embedding.norm": True, "norm.final_zero_centered": False},
        "source": "transformers 5.24, modeling_muse_glimmer",
    },
    {
        "types": ("hy_v4_vl_text", "hy_v4_vl"),
        "facts": {"mla.rope_pairing": "interleaved", "indexer.rope_pairing": "interleaved",
                  "indexer.rope_place": "last"},
        "source": "transformers 5.24, modeling_hy_v4_vl",
    },
    {
        "types": ("minicpm3",),
        "facts": {"mla.rope_pairing": "half", "mla.latent_norm_eps": "norm.eps",
                  "logits.by_base": True},
        "source": "transformers 5.24, modeling_minicpm3",
    },
    {
        "types": ("youtu", "glm4_moe_lite", "axk1", "longcat_flash", "mistral4"),
        "facts": {"mla.rope_pairing": "interleaved", "mla.latent_norm_eps": 1e-6},
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": ("sarvam_mla",),
        "facts": {"mla.rope_pairing": "interleaved", "mla.latent_norm_eps": 1e-6,
                  "moe.score": "sigmoid"},
        "source": "transformers 5.24, modeling_deepseek_v3, the class of this model_type",
    },
    {
        "types": (*_HALF, *_NEIGHBOURS),
        "facts": {"norm.zero_centered": False, "rope.theta_default": 10000.0},
        "source": "transformers 5.24, the class of this model_type",
    },
)  # fmt: skip
