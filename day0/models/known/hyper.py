"""Facts that neither config nor tensors state: hyper-connections and compressed attention.

Each entry: `types` (model_type words, the decoder's own or its parent's) or `words` (config keys
that must all have a value), `without` (keys that must have none), `facts`, `source`. The first
entry that matches a fact wins. "norm.eps" stands for the config's own eps.
"""

_GLM5 = {"hyper.end": "mean", "norm.zero_centered": False, "moe.score": "sigmoid",
         "moe.left_out": "lowest", "indexer.tail": True}  # fmt: skip
_DEEPSEEK_V4 = {
    "hyper.end": "head", "norm.zero_centered": False, "moe.renormalise": True, "moe.bias": True,
    "shared_kv.rope_pairing": "interleaved", "shared_kv.rope_place": "last",
    "shared_kv.attention_factor": 1.0, "shared_kv.ratio.csa": 4, "shared_kv.ratio.hca": 128,
}  # fmt: skip
_HY_V4 = {
    "hyper.end": "head", "norm.zero_centered": False, "mla.rope_pairing": "half",
    "mla.latent_norm_eps": 1e-6, "mla.out_gate": "element", "indexer.rope_pairing": "half",
    "indexer.rope_place": "last", "indexer.k_norm_eps": "norm.eps", "indexer.every": 4,
    "indexer.offset": 2, "ffn.clamped.dense": False, "ffn.clamped.shared": False,
    "moe.score": "sigmoid", "moe.left_out": "lowest",
}  # fmt: skip

KNOWN = (
    {
        "words": ("hc_mult", "index_kpool"),
        "facts": _GLM5,
        "source": "transformers 5.24, modeling_glm5_next",
    },
    {
        "types": ("glm5_next", "glm5_next_text"),
        "facts": _GLM5,
        "source": "transformers 5.24, modeling_glm5_next",
    },
    {
        "words": ("hc_mult", "o_lora_rank", "compress_rope_theta"),
        "without": ("kv_source_layer_ids",),
        "facts": _DEEPSEEK_V4,
        "source": "transformers 5.24, modeling_deepseek_v4; the reference leaves yarn's factor out",
    },
    {
        "types": ("deepseek_v4",),
        "facts": _DEEPSEEK_V4,
        "source": "transformers 5.24, modeling_deepseek_v4; the reference leaves yarn's factor out",
    },
    {
        "types": ("deepseek_v4",),
        "facts": {"shared_kv.partial": 0.125},
        "source": "transformers 5.24, configuration_deepseek_v4: 64 of 512 channels",
    },
    {
        "words": ("hc_magnitude", "learnable_sink_init"),
        "facts": _HY_V4,
        "source": "transformers 5.24, modeling_hy_v4",
    },
    {
        "types": ("hy_v4", "hy_v4_text"),
        "facts": _HY_V4,
        "source": "transformers 5.24, modeling_hy_v4",
    },
)
