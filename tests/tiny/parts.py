"""Groups of config words that several types share."""

from __future__ import annotations

from typing import Any

from .draw import Draw, NoCandidateLeft


def common(draw: Draw) -> dict[str, Any]:
    """Words that every decoder has. The epsilon is large enough to show in a comparison."""
    return {
        "vocab_size": draw.pick(97, 101, 103, 107, 109, 113, 127),
        "rms_norm_eps": draw.either(2e-3, 5e-3, 1.2e-2),
        "max_position_embeddings": draw.either(320, 384, 448),
        "initializer_range": 0.05,
        "pad_token_id": None,
        "bos_token_id": 3,
        "eos_token_id": 4,
    }


def layers(draw: Draw, count: int) -> dict[str, Any]:
    """The depth, reserved so that no other size equals it."""
    draw.claim(count)
    return {"num_hidden_layers": count}


def widths(draw: Draw, *names: str) -> dict[str, Any]:
    """hidden_size and the named feed-forward widths."""
    sizes = {"hidden_size": draw.pick(40, 44, 52, 56, 68)}
    for name in names:
        sizes[name] = draw.pick(18, 22, 26, 34, 38, 46, 58, 62)
    return sizes


def grouped_heads(draw: Draw, *head_dims: int) -> dict[str, Any]:
    """Query heads, fewer key heads, and a head dim that is not hidden_size / heads."""
    num_heads, num_kv_heads = draw.pick_together(
        *((6, 3), (9, 3), (10, 5), (12, 6), (14, 7), (12, 3), (15, 5))
    )
    head_dim = draw.pick(*(head_dims or (8, 12, 16, 20, 24)))
    draw.claim(num_heads * head_dim, num_kv_heads * head_dim)
    return {
        "num_attention_heads": num_heads,
        "num_key_value_heads": num_kv_heads,
        "head_dim": head_dim,
    }


def latent_heads(draw: Draw, *, rope: bool = True, query_rank: bool = True) -> dict[str, Any]:
    """Heads, ranks and head dims of multi-head latent attention."""
    num_heads = draw.pick(5, 7, 9, 10, 11, 12, 13)
    sizes: dict[str, Any] = {"num_attention_heads": num_heads, "num_key_value_heads": num_heads}
    sizes["kv_lora_rank"] = draw.pick(21, 25, 29, 31, 33)
    if query_rank:
        sizes["q_lora_rank"] = draw.pick(23, 27, 30, 34, 35)
    sizes["qk_nope_head_dim"] = draw.pick(13, 14, 17, 18, 19)
    sizes["v_head_dim"] = draw.pick(11, 12, 15, 16)
    if rope:
        sizes["qk_rope_head_dim"] = draw.pick(4, 6, 8, 10)
    nope, value, turned = (
        sizes["qk_nope_head_dim"],
        sizes["v_head_dim"],
        sizes.get("qk_rope_head_dim", 0),
    )
    draw.claim(num_heads * (nope + value), num_heads * value)
    if turned:
        draw.claim(nope + turned, num_heads * (nope + turned), sizes["kv_lora_rank"] + turned)
    return sizes


def index_heads(draw: Draw) -> dict[str, Any]:
    """Heads of a lightning indexer; the rotary dims of every type fit its head.

    Many heads: a key that all of them reject scores exactly zero, and two such keys tie.
    """
    num_heads, head_dim = draw.pick(9, 10, 11, 12, 13, 14), draw.pick(16, 18, 20, 24, 28)
    draw.claim(num_heads * head_dim)
    return {"index_n_heads": num_heads, "index_head_dim": head_dim}


def index_budget(draw: Draw) -> dict[str, Any]:
    """Tokens an indexer may choose: fewer than a test prompt has."""
    return {"index_topk": draw.pick(11, 12, 13, 16, 17)}


def grouped_experts(draw: Draw, total: str, *, shared: bool = True) -> dict[str, Any]:
    """Experts in groups of which only some may be chosen; `total` is the key of their number."""
    groups, chosen_groups, num_experts = draw.pick_together(
        *((3, 2, 12), (4, 2, 12), (4, 3, 16), (5, 2, 15), (5, 3, 15), (5, 4, 20)),
        *((6, 2, 18), (6, 3, 18), (6, 5, 18), (7, 2, 21), (7, 3, 21), (7, 5, 21)),
        *((9, 4, 18), (9, 6, 18), (10, 4, 20), (10, 7, 20), (12, 5, 24), (12, 7, 24)),
    )
    sizes = {
        total: num_experts,
        "n_group": groups,
        "topk_group": chosen_groups,
        "num_experts_per_tok": draw.pick(2, 3, 4, 5, 6, 7),
        "routed_scaling_factor": draw.either(1.25, 1.75, 2.25),
    }
    if sizes["num_experts_per_tok"] >= chosen_groups * num_experts // groups:
        # The chosen groups would leave nothing to choose, or too little.
        raise NoCandidateLeft
    if shared:
        sizes["n_shared_experts"] = draw.pick(2, 3, 4, 5)
    return sizes


def expert_widths(draw: Draw, num_shared: int = 1) -> dict[str, Any]:
    """hidden_size, dense width and expert width, all distinct from the shared experts' width."""
    sizes = widths(draw, "intermediate_size", "moe_intermediate_size")
    if num_shared > 1:
        draw.claim(num_shared * sizes["moe_intermediate_size"])
    return sizes


def gated_delta(draw: Draw) -> dict[str, Any]:
    """Heads of a gated delta net: value heads a multiple of key heads, both dims distinct."""
    key_heads, value_heads = draw.pick_together(
        *((2, 4), (3, 6), (2, 6), (5, 10), (3, 9), (7, 14), (6, 12), (5, 15))
    )
    sizes = {
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": value_heads,
        "linear_key_head_dim": draw.pick(9, 11, 13, 14),
        "linear_value_head_dim": draw.pick(15, 16, 17, 19),
        "linear_conv_kernel_dim": draw.pick(2, 3, 5, 6, 7, 10),
    }
    key_dim = key_heads * sizes["linear_key_head_dim"]
    value_dim = value_heads * sizes["linear_value_head_dim"]
    draw.claim(key_dim, value_dim, 2 * key_dim + value_dim)
    return sizes


def yarn(draw: Draw, **more: Any) -> dict[str, Any]:
    """A yarn table whose original length a test prompt exceeds, and the length it stretches to."""
    original, factor = 32, draw.either(4.0, 6.0)
    table = {
        "rope_type": "yarn",
        "rope_theta": draw.either(5000.0, 20000.0),
        "factor": factor,
        "original_max_position_embeddings": original,
        "beta_fast": 24.0,
        "beta_slow": 2.0,
        **more,
    }
    return {"rope_parameters": table, "max_position_embeddings": int(factor * original)}


def plain_rope(draw: Draw, **more: Any) -> dict[str, Any]:
    """The default table with a base that no class has as its default."""
    return {"rope_type": "default", "rope_theta": draw.either(3000.0, 7000.0, 20000.0), **more}


def repeat(pattern: tuple[str, ...], periods: int = 2) -> list[str]:
    """A layer list of whole periods."""
    return list(pattern) * periods


def dense_then_sparse(count: int, dense: int) -> list[str]:
    """mlp_layer_types with a dense prefix."""
    return ["dense"] * dense + ["sparse"] * (count - dense)
