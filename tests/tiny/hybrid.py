"""Config words of the types that mix linear attention with softmax attention."""

from __future__ import annotations

from typing import Any

from .draw import Draw
from .parts import (
    common,
    dense_then_sparse,
    expert_widths,
    gated_delta,
    grouped_experts,
    grouped_heads,
    index_heads,
    latent_heads,
    layers,
    plain_rope,
    repeat,
    widths,
)

LINEAR, FULL, SLIDING, INDEXED = (
    "linear_attention",
    "full_attention",
    "sliding_attention",
    "indexed_attention",
)


def delta_heads(draw: Draw) -> dict[str, Any]:
    """Heads of Kimi delta attention (key and value dims are one size there)."""
    sizes = {
        "linear_head_dim": draw.pick(8, 9, 12, 14, 15),
        "linear_num_heads": draw.pick(3, 5, 6, 7, 10, 11, 13),
        "linear_conv_kernel_dim": draw.pick(2, 3, 5, 6, 7, 10),
    }
    draw.claim(sizes["linear_num_heads"] * sizes["linear_head_dim"])
    return sizes


def glm5_next(draw: Draw) -> dict[str, Any]:
    depth = layers(draw, 8)
    pool = draw.pick(3, 4, 5, 6, 7)
    budget = pool * draw.either(3, 4)
    draw.claim(budget)
    streams = draw.pick(2, 3, 5, 6, 7)
    experts = grouped_experts(draw, "n_routed_experts")
    return {
        **depth,
        **experts,
        **delta_heads(draw),
        **latent_heads(draw, rope=False),
        **expert_widths(draw, experts["n_shared_experts"]),
        **index_heads(draw),
        **common(draw),
        "index_topk": budget,
        "index_kpool": pool,
        "linear_lower_bound": draw.either(-4.0, -3.0),
        "hc_mult": streams,
        "hc_eps": 1e-3,
        "hc_sinkhorn_iters": draw.either(3, 5),
        "swiglu_limit": draw.either(0.8, 1.1),
        "norm_topk_prob": draw.either(True, False),
        "layer_types": repeat((LINEAR, LINEAR, LINEAR, INDEXED)),
        "mlp_layer_types": dense_then_sparse(8, draw.either(1, 2)),
    }


def kimi_linear(draw: Draw) -> dict[str, Any]:
    experts = {**layers(draw, 8), **grouped_experts(draw, "num_local_experts")}
    return {
        **experts,
        **delta_heads(draw),
        **latent_heads(draw, query_rank=False),
        **expert_widths(draw, experts["n_shared_experts"]),
        **common(draw),
        "norm_topk_prob": draw.either(True, False),
        "layer_types": repeat((LINEAR, LINEAR, LINEAR, FULL)),
        "mlp_layer_types": dense_then_sparse(8, draw.either(1, 2)),
    }


def bailing_hybrid(draw: Draw) -> dict[str, Any]:
    group = draw.either(3, 4)
    depth = layers(draw, 2 * group)
    draw.claim(group)
    experts = grouped_experts(draw, "num_local_experts")
    draw.differ(experts["topk_group"], 4)
    heads = latent_heads(draw, query_rank=draw.either(True, False))
    linear_head_dim, kernel = draw.pick(8, 9, 12, 14), draw.pick(2, 3, 5, 6, 7)
    draw.claim(heads["num_attention_heads"] * linear_head_dim)
    return {
        **depth,
        **heads,
        **experts,
        **expert_widths(draw, experts["n_shared_experts"]),
        **common(draw),
        "head_dim": linear_head_dim,
        "short_conv_kernel_size": kernel,
        "layer_group_size": group,
        "first_k_dense_replace": 1,
        "kda_safe_gate": draw.either(True, False),
        "kda_lower_bound": draw.either(-4.0, -3.0),
        "norm_topk_prob": draw.either(True, False),
        "rope_theta": 5000.0,
        # The class builds no MTP layers, so the file must not promise any.
        "num_mtp_layers": 0,
    }


def qwen_attention(draw: Draw) -> dict[str, Any]:
    """Gated delta net and gated GQA as the Qwen hybrids share them."""
    return {
        **layers(draw, 8),
        **grouped_heads(draw, 12, 20, 28),
        **gated_delta(draw),
        **common(draw),
        "layer_types": repeat((LINEAR, LINEAR, LINEAR, FULL)),
    }


def softmax_experts(draw: Draw, *, shared: bool = True) -> dict[str, Any]:
    """Ungrouped softmax experts."""
    sizes = {
        "num_experts": draw.pick(7, 11, 13, 18, 21),
        "num_experts_per_tok": draw.pick(2, 3, 4, 5, 6, 7),
    }
    if shared:
        sizes["shared_expert_intermediate_size"] = draw.pick(22, 34, 42)
    return sizes


def qwen3_next(draw: Draw) -> dict[str, Any]:
    return {
        **qwen_attention(draw),
        **softmax_experts(draw),
        **widths(draw, "intermediate_size", "moe_intermediate_size"),
        "norm_topk_prob": draw.either(True, False),
        "mlp_only_layers": [draw.either(0, 1)],
        "rope_parameters": plain_rope(draw, partial_rotary_factor=0.5),
    }


def mrope(draw: Draw, head_dim: int) -> dict[str, Any]:
    """Half of the head turned, in three interleaved sections (equal positions for text)."""
    pairs = head_dim // 4
    sections = [pairs - 2 * (pairs // 3), pairs // 3, pairs // 3]
    return plain_rope(
        draw, partial_rotary_factor=0.5, mrope_section=sections, mrope_interleaved=True
    )


def qwen3_5(draw: Draw) -> dict[str, Any]:
    sizes = {**qwen_attention(draw), **widths(draw, "intermediate_size")}
    return {**sizes, "rope_parameters": mrope(draw, sizes["head_dim"])}


def qwen3_5_moe(draw: Draw) -> dict[str, Any]:
    sizes = {
        **qwen_attention(draw),
        **softmax_experts(draw),
        **widths(draw, "moe_intermediate_size"),
    }
    return {**sizes, "rope_parameters": mrope(draw, sizes["head_dim"])}


def qwen4_exp(draw: Draw) -> dict[str, Any]:
    ratio = draw.pick(2, 3, 4, 5, 6)
    budget = ratio * draw.either(3, 4)
    per_ngram, ngram = draw.pick(2, 3, 4, 5, 6), draw.either(2, 4)
    embed = per_ngram * (ngram - 1) * draw.either(3, 5)
    draw.claim(budget, embed)
    streams = draw.pick(2, 3, 5, 6, 7)
    sizes = {
        **qwen_attention(draw),
        **softmax_experts(draw),
        **widths(draw, "moe_intermediate_size"),
    }
    return {
        **sizes,
        "layer_types": repeat((LINEAR, LINEAR, LINEAR, INDEXED)),
        "rope_parameters": mrope(draw, sizes["head_dim"]),
        "hc_count": streams,
        "hc_lowrank": draw.pick(23, 25, 29),
        "ple_layer_ids": [2, 6],
        "ple_embed_dim": embed,
        "ple_conv_kernel_size": draw.either(2, 3),
        "ngram_size": ngram,
        "heads_per_ngram": per_ngram,
        "ngram_vocab_size_base": draw.either(30, 50),
        "make_ngram_vocab_size_divisible_by": 24,
        "split_ngram_parts": draw.either(2, 3),
        "seed": draw.either(77, 4321),
        "indexer_n_heads": draw.pick(7, 9, 10, 11, 13),
        "indexer_kv_heads": 1,
        "indexer_head_dim": draw.pick(18, 22, 26, 30),
        "indexer_budget": budget,
        "indexer_compress_ratio": ratio,
        "norm_topk_prob": draw.either(True, False),
        "output_gate_type": draw.either("sigmoid", "silu"),
    }


def olmo_hybrid(draw: Draw) -> dict[str, Any]:
    return {
        **layers(draw, 4),
        **grouped_heads(draw),
        **gated_delta(draw),
        **widths(draw, "intermediate_size"),
        **common(draw),
        "linear_allow_neg_eigval": draw.either(True, False),
        "layer_types": [LINEAR, LINEAR, FULL, LINEAR],
        "rope_parameters": plain_rope(draw),
    }


def lara_mini(draw: Draw) -> dict[str, Any]:
    experts = softmax_experts(draw)
    draw.differ(experts["num_experts_per_tok"], 4)
    return {
        **layers(draw, 10),
        **experts,
        **grouped_heads(draw),
        **gated_delta(draw),
        **widths(draw, "moe_intermediate_size"),
        **common(draw),
        "sliding_window": draw.pick(5, 7, 9),
        "norm_topk_prob": draw.either(True, False),
        "layer_types": repeat((LINEAR, SLIDING, LINEAR, FULL, SLIDING)),
        "rope_parameters": plain_rope(draw),
    }


def minimax(draw: Draw) -> dict[str, Any]:
    return {
        **layers(draw, 6),
        **grouped_heads(draw),
        **widths(draw, "intermediate_size"),
        **common(draw),
        "num_local_experts": draw.pick(7, 11, 13),
        "num_experts_per_tok": draw.pick(3, 4, 5),
        "block_size": draw.pick(7, 11, 13),
        "full_attn_alpha_factor": 1.5,
        "full_attn_beta_factor": 0.75,
        "linear_attn_alpha_factor": 1.25,
        "linear_attn_beta_factor": 0.5,
        "mlp_alpha_factor": 1.125,
        "mlp_beta_factor": 0.875,
        "layer_types": repeat((LINEAR, LINEAR, FULL)),
        "rope_parameters": plain_rope(draw),
    }
