"""What tensors tell and no config states, for reading without headers: where norms stand, which
projections have a bias, gates, sinks. By type; with headers the tensors decide all but the norms.

Each entry: `types` (model_type words, the decoder's own or its parent's), `facts`, `source`. The
first entry that matches a fact wins.
"""

_BIASES = {"gqa.qkv_bias": True, "gqa.out_bias": True, "ffn.bias": True, "norm.bias": True}

KNOWN = (
    {
        "types": ("afmoe", "beam", "gemma2", "gemma3_text", "gemma3", "glm4", "glm4v_text",
                  "glm_ocr_text", "hyperclovax", "kolibri1", "muse_glimmer_text"),
        "facts": {"norm.arrangement": "sandwich"},
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": ("olmo2", "olmo3", "flex_olmo", "exaone4"),
        "facts": {"norm.arrangement": "post"},
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": ("cohere", "cohere2", "cohere2_moe", "cohere_compass_text", "phi", "codegen"),
        "facts": {"norm.arrangement": "parallel"},
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": ("gemma3_text", "gemma3", "exaone4", "exaone_moe", "dots1", "beam", "afmoe",
                  "flint", "kolibri1", "laguna", "mellum", "hunyuan_v1_dense", "hunyuan_v1_moe",
                  "hunyuan_vl_text", "hy_v3", "apertus", "apertus1p5_text", "persimmon"),
        "facts": {"gqa.qk_norm": "head"},
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": ("olmo2", "olmo3", "olmoe", "flex_olmo", "minimax_m2"),
        "facts": {"gqa.qk_norm": "full"},
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": ("codegen",),
        "facts": {"gqa.qkv_bias": False, "gqa.out_bias": False},
        "source": "transformers 5.24, modeling_codegen",
    },
    {
        "types": ("bloom", "codegen", "gpt_bigcode", "gpt_neox", "jais2", "opt", "biogpt",
                  "persimmon", "phi", "starcoder2"),
        "facts": _BIASES,
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": ("falcon", "gpt_neox_japanese", "nemotron", "phimoe", "stablelm"),
        "facts": {"norm.bias": True},
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": ("apertus", "apertus1p5_text", "arcee", "jais2", "starcoder2", "phi"),
        "facts": {"ffn.gated": False},
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": ("flint",),
        "facts": {"moe.bias": False},
        "source": "transformers 5.24, modeling_flint",
    },
    {
        "types": ("flint", "granite_swa", "granitemoe_swa"),
        "facts": {"gqa.sink": True},
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": ("afmoe", "beam", "muse_glimmer_text"),
        "facts": {"gqa.out_gate": "element"},
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": ("glm", "glm4", "glm4v_text", "glm_ocr_text", "glm4v_moe_text"),
        "facts": {"gqa.out_bias": False},
        "source": "transformers 5.24, modeling_glm: biases of queries, keys and values alone",
    },
    {
        "types": ("glm4v_text",),
        "facts": {"gqa.qkv_bias": True},
        "source": "transformers 5.24, modeling_glm4v",
    },
    {
        "types": ("llama4_text", "llama4", "hunyuan_v1_moe"),
        "facts": {"moe.shared_one": True},
        "source": "transformers 5.24: one shared expert, as wide as the others",
    },
    {
        "types": ("axk1",),
        "facts": {"norm.arrangement.sparse": "outer"},
        "source": "transformers 5.24, modeling_axk1: a norm after the experts",
    },
    {
        "types": ("beam",),
        "facts": {"gqa.gate_bias": True},
        "source": "transformers 5.24, modeling_beam",
    },
    {
        "types": ("bitnet",),
        "facts": {"gqa.inner_norm": True, "ffn.inner_norm": True},
        "source": "transformers 5.24, modeling_bitnet",
    },
    {
        "types": ("bloom",),
        "facts": {"embedding.weighted_norm": True},
        "source": "transformers 5.24, modeling_bloom",
    },
    {
        "types": ("gpt_neox",),
        "facts": {"norm.branches": True},
        "source": "transformers 5.24, modeling_gpt_neox: a norm for each branch",
    },
    {
        "types": ("phi", "codegen"),
        "facts": {"head.bias": True},
        "source": "transformers 5.24, the class of this model_type",
    },
    {
        "types": ("gemma4_text", "gemma4", "gemma4_unified_text", "gemma4_unified"),
        "facts": {"residual.sum_factor": True, "moe.score": "softmax", "moe.renormalise": True,
                  "moe.layout": "fused"},
        "source": "transformers 5.24, modeling_gemma4: layer_scalar",
    },
    {
        "types": ("laguna",),
        "facts": {"gqa.out_gate": "head"},
        "source": "transformers 5.24, modeling_laguna: gating true",
    },
    {
        "types": ("mimo_v2_flash",),
        "facts": {"gqa.sink.sliding": True, "gqa.kv_twice.sliding": True},
        "source": "transformers 5.24, modeling_mimo_v2_flash",
    },
)  # fmt: skip
