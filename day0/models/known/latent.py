"""Facts that neither config nor tensors state: latent attention, indexers, KDA, drafts.

Each entry: `types` (model_type words, the decoder's own or its parent's) or `words` (config keys
that must all have a value), `without` (keys that must have none), `facts`, `source`. The first
entry that matches a fact wins. "norm.eps" stands for the config's own eps.
"""

KNOWN = (
    {
        "types": ("deepseek_v2",),
        "facts": {"mla.rope_pairing": "interleaved", "mla.latent_norm_eps": 1e-6,
                  "moe.score": "softmax"},
        "source": "transformers 5.24, modeling_deepseek_v2",
    },
    {
        "types": ("deepseek_v3", "deepseek_v32", "kimi_k2", "kimi_k25"),
        "facts": {"mla.rope_pairing": "interleaved", "mla.latent_norm_eps": 1e-6,
                  "moe.score": "sigmoid"},
        "source": "transformers 5.24, modeling_deepseek_v3",
    },
    {
        "types": ("deepseek_v3", "deepseek_v32"),
        "facts": {"mtp.own_embedding": True, "mtp.own_head": True},
        "source": "header listing of DeepSeek-V3.2: layer 61 has its own embedding and head",
    },
    {
        "types": ("deepseek_v32",),
        "facts": {"indexer.rope_pairing": "half", "indexer.rope_place": "first",
                  "indexer.k_norm_eps": 1e-6},
        "source": "transformers 5.24, modeling_deepseek_v32; field case 129",
    },
    {
        "types": ("glm_moe_dsa",),
        "facts": {"mla.rope_pairing": "interleaved", "mla.latent_norm_eps": 1e-6,
                  "indexer.rope_pairing": "interleaved", "indexer.rope_place": "first",
                  "indexer.k_norm_eps": 1e-6, "moe.score": "sigmoid"},
        "source": "transformers 5.24, modeling_glm_moe_dsa",
    },
    {
        "words": ("gated_norm_rank",),
        "facts": {"mla.rope_pairing": "interleaved", "mla.latent_norm_eps": 1e-6,
                  "mla.out_gate": "fused", "indexer.rope_pairing": "half",
                  "indexer.rope_place": "first", "indexer.k_norm_eps": 1e-6,
                  "moe.score": "sigmoid"},
        "source": "transformers 5.24, modeling_axk2",
    },
    {
        "types": ("dots3_note", "dots3_note_text"),
        "facts": {"mla.rope_pairing": "interleaved", "mla.latent_norm_eps": "norm.eps",
                  "mla.scaled_latents": True, "mla.out_gate": "head",
                  "indexer.rope_pairing": "interleaved", "indexer.rope_place": "first",
                  "indexer.k_norm_eps": 1e-6, "moe.score": "sigmoid"},
        "source": "transformers 5.24, modeling_dots3_note",
    },
    {
        "types": ("dots3_note", "dots3_note_text"),
        "without": ("per_layer_config",),
        "facts": {"mla.sliding.num_heads": 64, "mla.sliding.q_rank": 1024,
                  "mla.sliding.kv_rank": 1024, "mla.sliding.nope_dim": 192,
                  "mla.sliding.value_dim": 128, "mla.sliding.rope_dim": 64},
        "source": "transformers 5.24, configuration_dots3_note: defaults of swa_*",
    },
    {
        "types": ("dots3_note", "dots3_note_text"),
        "without": ("layer_types",),
        "facts": {"layers.first": ("indexed", "indexed"),
                  "layers.period": ("sliding", "indexed", "sliding", "sliding")},
        "source": "transformers 5.24, configuration_dots3_note: layers 0, 1 and i % 4 == 1",
    },
    {
        "words": ("kv_source_layers", "no_rope_layers"),
        "facts": {"mla.rope_pairing": "interleaved", "mla.latent_norm_eps": "norm.eps",
                  "mla.ssmax": True, "mla.learned_rope": True,
                  "indexer.rope_pairing": "interleaved", "indexer.rope_place": "first",
                  "indexer.k_norm_eps": 1e-6, "indexer.q_input": "hidden", "moe.score": "softmax",
                  "moe.renormalise": True, "moe.renormalise_eps": 1e-20},
        "source": "transformers 5.24, modeling_mistral_large4",
    },
    {
        "types": ("mistral_large4", "mistral_large4_text"),
        "facts": {"mla.rope_pairing": "interleaved", "mla.latent_norm_eps": "norm.eps",
                  "mla.ssmax": True, "mla.learned_rope": True,
                  "indexer.rope_pairing": "interleaved", "indexer.rope_place": "first",
                  "indexer.k_norm_eps": 1e-6, "indexer.q_input": "hidden", "moe.score": "softmax",
                  "moe.renormalise": True, "moe.renormalise_eps": 1e-20},
        "source": "transformers 5.24, modeling_mistral_large4",
    },
    {
        "words": ("layer_group_size", "kda_safe_gate"),
        "facts": {"mla.rope_pairing": "interleaved", "mla.latent_norm_eps": 1e-6,
                  "mla.out_gate": "head", "moe.score": "sigmoid"},
        "source": "transformers 5.24, modeling_bailing_hybrid",
    },
    {
        "types": ("bailing_hybrid",),
        "facts": {"mla.rope_pairing": "interleaved", "mla.latent_norm_eps": 1e-6,
                  "mla.out_gate": "head", "moe.score": "sigmoid"},
        "source": "transformers 5.24, modeling_bailing_hybrid",
    },
    {
        "types": ("kimi_linear",),
        "without": ("mla_use_nope",),
        "facts": {"mla.no_rope": True},
        "source": "transformers 5.24, modeling_kimi_linear: no rotary embedding anywhere",
    },
    {
        "words": ("moe_renormalize", "num_expert_group", "num_shared_experts"),
        "without": ("rope_theta", "rope_parameters", "layer_group_size"),
        "facts": {"mla.no_rope": True, "mla.latent_norm_eps": 1e-6, "moe.score": "sigmoid"},
        "source": "Kimi's words and no rotary word at all (kimi_linear)",
    },
    {
        "words": ("moe_renormalize", "linear_attn_config"),
        "without": ("layer_group_size",),
        "facts": {"mla.latent_norm_eps": 1e-6},
        "source": "transformers 5.24, modeling_kimi_linear; two loaders of Kimi-K3 take norm.eps",
    },
    {
        "words": ("attn_res_block_size", "linear_attn_config.use_full_rank_gate"),
        "facts": {"kda.a_log_size": 128},
        "source": "header listing of Kimi-K3: A_log is padded to 128",
    },
    {
        "words": ("index_kpool",),
        "facts": {"mla.latent_norm_eps": "norm.eps", "indexer.k_norm_eps": 1e-6},
        "source": "transformers 5.24, modeling_glm5_next",
    },
    {
        "types": ("hy_v4", "hy_v4_text", "hy_v4_vl", "hy_v4_vl_text"),
        "facts": {"mla.latent_norm_eps": 1e-6, "indexer.every": 4, "indexer.offset": 2},
        "source": "transformers 5.24, configuration_hy_v4: full, full, then every fourth",
    },
)  # fmt: skip
