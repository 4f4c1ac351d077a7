"""Config words of the plain decoders that hybrids are compared with."""

from __future__ import annotations

from typing import Any

from .draw import Draw
from .parts import (
    common,
    expert_widths,
    grouped_experts,
    grouped_heads,
    layers,
    plain_rope,
    repeat,
    widths,
    yarn,
)


def dense_decoder(draw: Draw, depth: int = 4, head_dims: tuple[int, ...] = ()) -> dict[str, Any]:
    """Grouped-query attention and a gated feed-forward in every layer."""
    return {
        **layers(draw, depth),
        **grouped_heads(draw, *head_dims),
        **widths(draw, "intermediate_size"),
        **common(draw),
        "rope_parameters": plain_rope(draw),
    }


def llama(draw: Draw) -> dict[str, Any]:
    sizes = dense_decoder(draw)
    # The class insists on hidden_size being a multiple of the heads.
    sizes["hidden_size"] = sizes["num_attention_heads"] * draw.either(4, 5, 7)
    draw.claim(sizes["hidden_size"])
    return {
        **sizes,
        "max_position_embeddings": 128,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": draw.either(5000.0, 20000.0),
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    }


def mistral(draw: Draw) -> dict[str, Any]:
    return {**dense_decoder(draw), "sliding_window": draw.pick(7, 9, 11)}


def qwen2(draw: Draw) -> dict[str, Any]:
    num_heads, num_kv_heads = draw.pick_together((6, 3), (9, 3), (10, 5), (12, 6))
    # The class has no head_dim field and divides instead.
    head_dim = draw.pick(8, 14)
    draw.claim(num_heads * head_dim, num_kv_heads * head_dim)
    return {
        **layers(draw, 4),
        "num_attention_heads": num_heads,
        "num_key_value_heads": num_kv_heads,
        **widths(draw, "intermediate_size"),
        "hidden_size": num_heads * head_dim,
        **common(draw),
        "use_sliding_window": True,
        "sliding_window": draw.pick(7, 9, 11),
        "max_window_layers": 2,
        **yarn(draw),
    }


def qwen3(draw: Draw) -> dict[str, Any]:
    return dense_decoder(draw)


def qwen3_moe(draw: Draw) -> dict[str, Any]:
    return {
        **dense_decoder(draw),
        **widths(draw, "moe_intermediate_size"),
        "num_experts": draw.pick(7, 11, 13, 15),
        "num_experts_per_tok": draw.pick(2, 3, 5),
        "norm_topk_prob": draw.either(True, False),
        "mlp_only_layers": [draw.either(0, 1)],
    }


def mixtral(draw: Draw) -> dict[str, Any]:
    return {
        **dense_decoder(draw),
        "num_local_experts": draw.pick(7, 11, 13, 15),
        "num_experts_per_tok": draw.pick(3, 5),
    }


def glm4_moe(draw: Draw) -> dict[str, Any]:
    return {
        # A quarter of a head is turned, in pairs.
        **dense_decoder(draw, head_dims=(8, 16, 24)),
        **(experts := grouped_experts(draw, "n_routed_experts")),
        **expert_widths(draw, experts["n_shared_experts"]),
        "first_k_dense_replace": 2,
        "norm_topk_prob": draw.either(True, False),
        "use_qk_norm": True,
        "attention_bias": True,
        "rope_parameters": plain_rope(draw, partial_rotary_factor=0.25),
        # The class builds no MTP layers, so the file must not promise any.
        "num_mtp_layers": 0,
    }


def gpt_oss(draw: Draw) -> dict[str, Any]:
    return {
        **dense_decoder(draw),
        "num_local_experts": draw.pick(7, 11, 13, 15),
        "num_experts_per_tok": draw.pick(2, 3, 5),
        "sliding_window": draw.pick(7, 9, 11),
        "swiglu_alpha": 1.4,
        "swiglu_limit": draw.either(0.8, 1.1),
        "layer_types": repeat(("sliding_attention", "full_attention")),
        **yarn(draw, truncate=False),
    }


def gemma3(draw: Draw) -> dict[str, Any]:
    sizes = dense_decoder(draw)
    # The class insists on hidden_size being a multiple of the heads.
    sizes["hidden_size"] = sizes["num_attention_heads"] * draw.either(4, 5, 7)
    draw.claim(sizes["hidden_size"])
    return {
        **sizes,
        "query_pre_attn_scalar": sizes["head_dim"] + 1,
        "final_logit_softcapping": 12.0,
        "sliding_window": draw.pick(7, 9, 11),
        "layer_types": repeat(("sliding_attention", "full_attention")),
        "rope_parameters": {
            "sliding_attention": plain_rope(draw),
            "full_attention": {**plain_rope(draw), "rope_type": "linear", "factor": 4.0},
        },
    }


def gemma4(draw: Draw) -> dict[str, Any]:
    """The last two of six layers read the keys and values of the two before; full layers have wider
    heads, fewer key heads and one matrix for keys and values."""
    wide = draw.pick(28, 32)
    sizes = dense_decoder(draw, depth=6)
    own = {"head_dim": wide, "num_key_value_heads": 1}
    return {
        **sizes,
        "attention_k_eq_v": True,
        "per_layer_config": dict.fromkeys((1, 3, 5), own),
        "num_kv_shared_layers": 2,
        "use_double_wide_mlp": True,
        "final_logit_softcapping": 12.0,
        "hidden_size_per_layer_input": draw.pick(11, 13, 15),
        "vocab_size_per_layer_input": draw.pick(131, 137, 139),
        "sliding_window": draw.pick(7, 9),
        "layer_types": repeat(("sliding_attention", "full_attention"), 3),
        "rope_parameters": {
            "sliding_attention": plain_rope(draw),
            "full_attention": {
                **plain_rope(draw),
                "rope_type": "proportional",
                "partial_rotary_factor": 0.25,
            },
        },
    }
