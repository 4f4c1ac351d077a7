"""Config words of the types with latent, indexed or compressed attention in every layer."""

from __future__ import annotations

from typing import Any

from .draw import Draw, NoCandidateLeft
from .parts import (
    common,
    dense_then_sparse,
    expert_widths,
    grouped_experts,
    grouped_heads,
    index_budget,
    index_heads,
    latent_heads,
    layers,
    plain_rope,
    repeat,
    widths,
    yarn,
)


def moe_decoder(draw: Draw, depth: int, *, query_rank: bool = True) -> dict[str, Any]:
    """Latent attention with grouped sigmoid or softmax experts."""
    experts = {**layers(draw, depth), **grouped_experts(draw, "n_routed_experts")}
    return {
        **experts,
        **latent_heads(draw, query_rank=query_rank),
        **expert_widths(draw, experts["n_shared_experts"]),
        **common(draw),
    }


def deepseek_v2(draw: Draw) -> dict[str, Any]:
    sizes = moe_decoder(draw, 4)
    draw.differ(sizes["n_shared_experts"], 2)
    # The class insists on hidden_size being a multiple of the heads, and turns pairs as complex
    # numbers, for which rows must have an even stride.
    sizes["hidden_size"] = sizes["num_attention_heads"] * draw.either(7, 8)
    sizes["kv_lora_rank"] = draw.pick(28, 32, 36)
    draw.claim(sizes["hidden_size"], sizes["kv_lora_rank"] + sizes["qk_rope_head_dim"])
    if sizes["qk_nope_head_dim"] % 2:
        raise NoCandidateLeft
    return {
        **sizes,
        "first_k_dense_replace": draw.either(1, 2),
        "topk_method": "group_limited_greedy",
        **yarn(draw, mscale=0.7, mscale_all_dim=0.9),
    }


def deepseek_v3(draw: Draw) -> dict[str, Any]:
    return {
        **moe_decoder(draw, 4),
        "first_k_dense_replace": draw.either(1, 2),
        "norm_topk_prob": draw.either(True, False),
        **yarn(draw, mscale=0.7, mscale_all_dim=0.9),
        # The class builds no MTP layers, so the file must not promise any.
        "num_mtp_layers": 0,
    }


def deepseek_v32(draw: Draw) -> dict[str, Any]:
    return {
        **moe_decoder(draw, 4),
        **index_heads(draw),
        **index_budget(draw),
        "first_k_dense_replace": draw.either(1, 2),
        "norm_topk_prob": draw.either(True, False),
        **yarn(draw, mscale=0.7, mscale_all_dim=0.9),
    }


def glm_moe_dsa(draw: Draw) -> dict[str, Any]:
    return {
        **moe_decoder(draw, 8),
        **index_heads(draw),
        **index_budget(draw),
        "first_k_dense_replace": draw.either(1, 2),
        "norm_topk_prob": draw.either(True, False),
        "index_topk_freq": draw.either(3, 4),
        "index_skip_topk_offset": draw.either(1, 3),
        "rope_parameters": plain_rope(draw),
    }


def deepseek_v4(draw: Draw) -> dict[str, Any]:
    depth = layers(draw, 6)
    num_heads, groups = draw.pick_together((8, 4), (9, 3), (10, 5), (14, 7))
    head_dim = draw.pick(16, 32)
    output_rank = draw.pick(13, 17, 19)
    draw.claim(num_heads * head_dim, groups * output_rank, head_dim // 4)
    rates = {
        "compressed_sparse_attention": draw.pick(2, 3, 5),
        "heavily_compressed_attention": draw.pick(7, 11, 12),
    }
    return {
        **depth,
        "num_attention_heads": num_heads,
        "head_dim": head_dim,
        "o_groups": groups,
        "o_lora_rank": output_rank,
        "q_lora_rank": draw.pick(23, 27, 30, 34),
        **index_heads(draw),
        **widths(draw, "moe_intermediate_size"),
        **common(draw),
        "index_topk": draw.pick(3, 4, 5, 7),
        "n_routed_experts": draw.pick(12, 14, 15),
        "num_experts_per_tok": draw.pick(2, 3, 4, 5, 7),
        "routed_scaling_factor": draw.either(1.25, 1.75),
        "sliding_window": draw.pick(5, 9, 13),
        "compress_rates": rates,
        "rope_theta": 3000.0,
        "compress_rope_theta": 7000.0,
        "partial_rotary_factor": 0.25,
        "max_position_embeddings": 128,
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32,
            "beta_fast": 24.0,
            "beta_slow": 2.0,
        },
        "hc_mult": draw.pick(2, 3, 5, 7),
        "hc_eps": 1e-3,
        "hc_sinkhorn_iters": draw.either(3, 5),
        "swiglu_limit": draw.either(0.8, 1.1),
        "layer_types": repeat(
            (
                "sliding_attention",
                "compressed_sparse_attention",
                "heavily_compressed_attention",
            )
        ),
        "mlp_layer_types": ["hash_moe"] * 2 + ["moe"] * 4,
        # The class builds no MTP layers, so the file must not promise any.
        "num_nextn_predict_layers": 0,
    }


def minimax_m3(draw: Draw) -> dict[str, Any]:
    depth = layers(draw, 8)
    heads = grouped_heads(draw, 12, 20, 28)
    return {
        **depth,
        **heads,
        **widths(draw, "intermediate_size", "dense_intermediate_size", "shared_intermediate_size"),
        **common(draw),
        "num_local_experts": draw.pick(11, 13, 15),
        "num_experts_per_tok": draw.pick(2, 3, 5),
        "routed_scaling_factor": draw.either(1.25, 1.75),
        "rotary_dim": heads["head_dim"] // 2,
        # One index head per group of key heads: the class knows no other number.
        "index_n_heads": heads["num_key_value_heads"],
        "index_head_dim": draw.pick(16, 24, 32),
        "index_block_size": draw.pick(4, 5, 7),
        "index_topk_blocks": 3,
        "index_local_blocks": 2,
        "swiglu_alpha": 1.4,
        "swiglu_limit": draw.either(0.8, 1.1),
        "layer_types": repeat(
            ("full_attention", "minimax_m3_sparse", "minimax_m3_sparse", "minimax_m3_sparse")
        ),
        "mlp_layer_types": dense_then_sparse(8, draw.either(1, 2)),
        "rope_parameters": plain_rope(draw, partial_rotary_factor=0.5),
    }


def hy_v4(draw: Draw) -> dict[str, Any]:
    return {
        **moe_decoder(draw, 9),
        **index_heads(draw),
        **index_budget(draw),
        "hc_mult": draw.pick(2, 3, 5, 7),
        "hc_magnitude": 1.5,
        "hc_eps": 1e-3,
        "swiglu_limit": draw.either(0.8, 1.1),
        "learnable_sink_init": 0.25,
        "norm_topk_prob": draw.either(True, False),
        "mlp_layer_types": dense_then_sparse(9, draw.either(1, 2)),
        "rope_parameters": plain_rope(draw),
    }


def axk2(draw: Draw) -> dict[str, Any]:
    return {
        **moe_decoder(draw, 4),
        **index_heads(draw),
        **index_budget(draw),
        "gated_norm_rank": draw.pick(3, 5, 7, 9, 14),
        "norm_topk_prob": draw.either(True, False),
        "mlp_layer_types": dense_then_sparse(4, draw.either(1, 2)),
        **yarn(draw, mscale=0.7, mscale_all_dim=0.9),
    }


def dots3_note(draw: Draw) -> dict[str, Any]:
    sizes = moe_decoder(draw, 9)
    sliding_nope = draw.pick(10, 12, 18, 20)
    sliding_rope = draw.pick(2, 4, 6, 8, 10)
    sliding_heads = draw.pick(2, 3, 4, 5, 6, 7, 8)
    draw.claim(sliding_nope + sliding_rope)
    return {
        **sizes,
        **index_heads(draw),
        **index_budget(draw),
        "head_dim": draw.pick(32, 64),
        "shared_experts_intermediate_size": draw.pick(37, 39, 41),
        "sliding_window": draw.pick(5, 7, 8, 10, 12),
        "norm_topk_prob": draw.either(True, False),
        "first_k_dense_replace": draw.either(1, 2),
        "rope_theta": 3000.0,
        "swa_rope_theta": 7000.0,
        "swa_num_attention_heads": sliding_heads,
        "swa_num_key_value_heads": sliding_heads,
        "swa_q_lora_rank": draw.pick(43, 45, 47),
        "swa_kv_lora_rank": draw.pick(49, 51, 53),
        "swa_qk_nope_head_dim": sliding_nope,
        "swa_head_dim": sliding_nope + sliding_rope,
        "swa_v_head_dim": draw.pick(14, 22, 26),
    }


def mistral_large4(draw: Draw) -> dict[str, Any]:
    sizes = moe_decoder(draw, 8, query_rank=False)
    draw.differ(sizes["num_experts_per_tok"], 4)
    return {
        **sizes,
        **index_heads(draw),
        **index_budget(draw),
        "first_k_dense_replace": 2,
        "final_logit_softcapping": 3.0,
        "no_rope_layers": [1, 1, 1, 0] * 2,
        # A layer that reuses keys takes the last ones stored by a layer of its own rope kind.
        "kv_source_layers": [0, 1, 1, 3, 4, 4, 6, 3],
        "index_topk_freq": 2,
        **yarn(draw, attention_factor=1.0),
    }
