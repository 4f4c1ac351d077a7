"""Small sizes for the config keys of all types, and what single types need beside."""

from typing import Any

COMMON: dict[str, Any] = {
    "vocab_size": 97, "hidden_size": 48, "d_model": 48, "n_embd": 48,
    "num_hidden_layers": 4, "n_layer": 4, "n_layers": 4, "num_layers": 4,
    "num_attention_heads": 6, "n_head": 6, "n_heads": 6, "num_heads": 6,
    "num_key_value_heads": 3, "num_kv_heads": 3, "head_dim": 16,
    "intermediate_size": 70, "ffn_dim": 70, "n_inner": 70, "ffn_hidden_size": 70,
    "moe_intermediate_size": 22, "expert_ffn_hidden_size": 22,
    "dense_intermediate_size": 62, "intermediate_size_mlp": 62,
    "shared_expert_intermediate_size": 26, "shared_intermediate_size": 26,
    "shared_experts_intermediate_size": 26, "moe_shared_expert_intermediate_size": 26,
    "num_experts": 8, "num_local_experts": 8, "n_routed_experts": 8, "moe_num_experts": 8,
    "n_group": 4, "topk_group": 2,
    "num_experts_per_tok": 3, "moe_topk": 3, "moe_k": 3, "top_k_experts": 3,
    "kv_lora_rank": 20, "q_lora_rank": 28, "qk_rope_head_dim": 8, "qk_nope_head_dim": 10,
    "v_head_dim": 14,
    "index_head_dim": 16, "index_n_heads": 5, "index_topk": 9,
    "max_position_embeddings": 128, "n_positions": 128, "max_seq_len": 128,
    "sliding_window": 9, "sliding_window_size": 9, "attention_chunk_size": 9,
    "bos_token_id": 3, "eos_token_id": 4, "pad_token_id": None,
    "linear_key_head_dim": 9, "linear_value_head_dim": 13, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_conv_kernel_dim": 4,
    "first_k_dense_replace": 1,
}  # fmt: skip

_MROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 3000.0,
                              "mrope_section": [2, 1, 1]}}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("glm4v_text", "glm_ocr_text", "qwen2_vl_text", "qwen2_5_vl_text"), _MROPE),
    "glm4v_moe_text": {
        "rope_parameters": {**_MROPE["rope_parameters"], "partial_rotary_factor": 1.0}
    },
    "hunyuan_vl_text": {**_MROPE, "head_dim": 8},
    "helium": {"head_dim": 8},
    "dbrx": {
        "attn_config": {"kv_n_heads": 3, "clip_qkv": 8.0, "rope_theta": 5000.0},
        "ffn_config": {"ffn_hidden_size": 22, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "mimo_v2_flash": {"head_dim": 24},
    "apertus1p5_text": {"output_vocab_size": 61},
    "modernbert-decoder": {"pad_token_id": 0, "local_attention": 18},
    "phi4_multimodal": {
        "vision_config": {
            "hidden_size": 24,
            "intermediate_size": 30,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 56,
            "crop_size": 56,
        },
        "audio_config": {
            "hidden_size": 24,
            "intermediate_size": 30,
            "num_blocks": 2,
            "num_attention_heads": 2,
            "ext_pw_out_channel": 24,
            "nemo_conv_channels": 24,
            "depthwise_separable_out_channel": 24,
        },
    },
    "codegen": {"rotary_dim": 4},
    "phimoe": {"num_experts_per_tok": 2},
    "llama4_text": {
        "no_rope_layers": [1, 1, 1, 0],
        "floor_scale": 8,
        "num_experts_per_tok": 1,
        "layer_types": ["chunked_attention"] * 3 + ["full_attention"],
    },
    "laguna": {
        "layer_types": ["full_attention", "sliding_attention"] * 2,
        "num_attention_heads_per_layer": [6, 9, 6, 9],
    },
    "cohere_compass_text": {
        "rope_parameters": {
            k: {"rope_type": "default", "rope_theta": 5000.0}
            for k in ("full_attention", "sliding_attention")
        }
    },
    "gemma2": {"query_pre_attn_scalar": 12},
    "gemma3_text": {"query_pre_attn_scalar": 12},
    "diffllama": {"num_attention_heads": 8, "num_key_value_heads": 4},
    "dots1": {"n_shared_experts": 2},
    "hy_v4_vl_text": {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 3000.0,
            "mrope_section": [2, 1, 1],
        }
    },
    "inkling2_loop_text": {"unpadded_vocab_size": 95},
    "inkling2_text": {"unpadded_vocab_size": 95},
    "inkling_text": {"unpadded_vocab_size": 95},
    "gemma3n_text": {
        "num_kv_shared_layers": 2,
        "vocab_size_per_layer_input": 97,
        "hidden_size_per_layer_input": 10,
        "num_hidden_layers": 6,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
        "intermediate_size": 70,
        "activation_sparsity_pattern": [0.9] * 2 + [0.0] * 4,
        "laurel_rank": 7,
    },
    "gemma4_text": {
        "vocab_size_per_layer_input": 97,
        "hidden_size_per_layer_input": 10,
        "num_kv_shared_layers": 2,
        "num_hidden_layers": 6,
        "global_head_dim": 24,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
        "use_double_wide_mlp": True,
        "enable_moe_block": True,
    },
    "gemma4_unified_text": {
        "num_kv_shared_layers": 2,
        "num_hidden_layers": 6,
        "global_head_dim": 24,
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
    },
}
# Modules whose weights are made small (`checkpoints.calm`).
CALM: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("gemma3n_text", "gemma4_text", "gemma4_unified_text"), ("q_norm",)
)
# Text types of another name in tests.tiny.
SAME = {"minimax_m3_vl_text": "minimax_m3"}
CLASSES: dict[str, str] = {
    "step3p7_text": "Step3p7TextModel",
    "hy_v4_vl_text": "HYV4VLTextModel",
}
