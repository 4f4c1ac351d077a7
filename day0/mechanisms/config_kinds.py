"""What each config key that a mechanism reads may hold: the one check between a file from outside
and arithmetic.

A value of another form (a list where a number is read) means a layout nobody has taught us: the
reader of a layer gives way to an unknown op. A value that fits no reading (a negative size, a
word for a number) is a mistake of the file.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from day0.errors import Day0Error

NO: Any = object()
# Wider than any published dim, and small enough that products of a few stay exact everywhere.
LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`says`: what is allowed, for messages. `take`: the value as the readers want it, or NO.
    `structure`: the kind is a list or a table."""

    says: str
    take: Callable[[Any], Any]
    structure: bool = False


def whole(low: int, high: int = LARGEST) -> Kind:
    """A whole number; 128.0 is one, true is none."""

    def take(value: Any) -> Any:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return value if fits else NO

    return Kind(says=f"a whole number from {low:,} to {high:,}", take=take)


def _real(above: float | None) -> Kind:
    def take(value: Any) -> Any:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or abs(value) > 1e300 or not math.isfinite(value):
            return NO
        return value if above is None or value > above else NO

    return Kind(says="a number" if above is None else f"a number above {above:g}", take=take)


def _flag(value: Any) -> Any:
    return bool(value) if isinstance(value, bool) or value in (0, 1) else NO


def _word(value: Any) -> Any:
    return value if isinstance(value, str) else NO


def listed(kind: Kind) -> Kind:
    """A list with entries of `kind`."""

    def take(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return NO
        taken = [kind.take(item) for item in value]
        return NO if any(item is NO for item in taken) else taken

    return Kind(says=f"a list, each entry {kind.says}", take=take, structure=True)


def either(*kinds: Kind) -> Kind:
    """The first kind that takes the value."""

    def take(value: Any) -> Any:
        return next((t for kind in kinds if (t := kind.take(value)) is not NO), NO)

    return Kind(
        says=" or ".join(kind.says for kind in kinds),
        take=take,
        structure=any(kind.structure for kind in kinds),
    )


def _table(value: Any) -> Any:
    return value if isinstance(value, Mapping) else NO


SIZE, COUNT = whole(1), whole(0)
FEW = whole(0, 65_536)  # of what is built one by one
NUMBER, POSITIVE = _real(None), _real(0.0)
FLAG = Kind(says="true or false", take=_flag)
WORD = Kind(says="a word", take=_word)
TABLE = Kind(says="an object", take=_table, structure=True)
IDS = either(whole(-1), listed(whole(-1)))

_BY_KIND = (
    (SIZE, """hidden_size d_model n_embd vocab_size num_attention_heads n_head num_heads
        num_global_key_value_heads global_head_dim ffn_config.moe_top_k ffn_config.hidden_size
        vocab_size_per_layer_input n_heads num_attention_heads_per_layer num_kv_heads
        attn_config.kv_n_heads kv_channels laurel_rank
        sliding_window_size local_attention intermediate_multiple_size
        expansion_ratio moe_layer_interval interleave_moe_layer_step dim_model_base
        num_key_value_heads swa_num_key_value_heads swa_num_attention_heads v_head_dim
        swa_v_head_dim kv_lora_rank swa_kv_lora_rank
        linear_attn_config.head_dim linear_attn_config.num_heads linear_head_dim linear_num_heads
        linear_key_head_dim linear_num_key_heads linear_num_value_heads linear_value_head_dim
        linear_attn_config.short_conv_kernel_size linear_conv_kernel_dim short_conv_kernel_size
        index_head_dim index_n_heads index_topk index_topk_freq index_block_size
        indexer_budget indexer_compress_ratio indexer_head_dim indexer_kv_heads
        indexer_n_heads o_groups o_lora_rank num_experts_per_tok num_experts_per_token moe_topk
        moe_k top_k_experts topk experts_per_token n_group num_expert_group topk_group
        ple_embed_dim ple_conv_kernel_size make_ngram_vocab_size_divisible_by
        sparse_attention_config.sparse_block_size sparse_attention_config.sparse_index_dim
        sparse_attention_config.sparse_num_index_heads sparse_attention_config.sparse_topk_blocks
        attn_res_block_size block_attn_res_block_size attnres_block_size
        n_layers_per_attn_res_block decoder_sparse_step full_attention_interval
        compress_rates.compressed_sparse_attention compress_rate_csa
        compress_rates.heavily_compressed_attention compress_rate_hca"""),
    (COUNT, """head_dim swa_head_dim q_lora_rank qk_nope_head_dim qk_rope_head_dim swa_q_lora_rank
        swa_qk_nope_head_dim swa_qk_rope_head_dim intermediate_size dense_intermediate_size
        intermediate_size_mlp
        ffn_hidden_size ffn_dim moe_intermediate_size expert_ffn_hidden_size
        shared_expert_intermediate_size shared_intermediate_size
        moe_shared_expert_intermediate_size shared_experts_intermediate_size n_shared_experts
        num_shared_experts moe_num_shared_experts routed_expert_hidden_size gated_norm_rank
        hc_lowrank index_topk_blocks index_local_blocks
        sparse_attention_config.sparse_local_block index_skip_topk_offset rotary_dim
        sliding_window attention_chunk_size max_window_layers
        first_k_dense_replace moe_layer_start_index n_inner floor_scale num_kv_shared_layers
        output_vocab_size
        hidden_size_per_layer_input ffn_config.ffn_hidden_size
        prefix_dense_sliding_window_pattern prefix_dense_intermediate_size num_dense_layers
        num_hash_layers layer_group_size
        no_rope_layer_interval ngram_vocab_size_base num_hidden_layers n_layer n_layers
        num_layers index_kpool block_size"""),
    (FEW, """ffn_config.moe_num_experts n_routed_experts num_experts num_local_experts
        moe_num_experts num_moe_experts"""),
    (whole(0, 1024), """num_nextn_predict_layers num_mtp_layers mtp_num_hidden_layers
        num_mtp_modules hc_sinkhorn_iters"""),
    (whole(1, 1024), "hc_mult hc_count heads_per_ngram"),
    (whole(2, 1024), "ngram_size"),
    (whole(-1), "moe_layer_end_index"),
    (NUMBER, """activation_sparsity_pattern attn_config.rope_theta layer_rope_theta
        output_multiplier
        attention_value_scale qk_scale_factor scale_depth
        attn_config.softmax_scale post_norm_eps moe_norm_min moe_router_logit_softcapping attn_scale
        embedding_scale attention_multiplier embedding_multiplier scale_emb
        lm_head_multiplier logit_scale
        residual_multiplier routed_scaling_factor router_scaling_factor route_scale
        moe_routed_scaling_factor swiglu_alpha swiglu_limit activation_situ_beta
        activation_situ_linear_beta hc_magnitude kda_lower_bound linear_lower_bound lower_bound
        linear_attn_config.gate_lower_bound layernorm_full_attention_alpha
        layernorm_full_attention_beta layernorm_linear_attention_alpha
        layernorm_linear_attention_beta layernorm_mlp_alpha layernorm_mlp_beta
        full_attn_alpha_factor full_attn_beta_factor linear_attn_alpha_factor
        linear_attn_beta_factor mlp_alpha_factor mlp_beta_factor logits_scaling rms_norm_eps
        layer_norm_eps layer_norm_epsilon norm_eps norm_epsilon layernorm_epsilon
        hc_eps"""),
    (POSITIVE, """rope_theta swa_rope_theta compress_rope_theta rope_local_base_freq
        partial_rotary_factor rotary_pct query_pre_attn_scalar final_logit_softcapping
        attn_logit_softcapping attn_config.clip_qkv clip_qkv attn_config.alibi_bias_max
        altup_coef_clip"""),
    (FLAG, """attention_bias qkv_bias mlp_bias attention_output_gate attn_output_gate
        index_kpool_always_select_tail index_share_for_mtp_iteration indexer_rope_interleave
        rope_interleave kda_safe_gate linear_attn_config.safe_gate
        linear_attn_config.use_full_rank_gate latent_moe_use_norm linear_allow_neg_eigval
        mla_use_nope mla_use_output_gate moe_renormalize norm_topk_prob mtp_hidden_states_first
        no_kda_lora postnorm sparse_attention_config.use_sparse_attention tie_word_embeddings
        use_dsa use_gemma_norm lm_head_bias use_qk_norm use_parallel_residual
        parallel_attn new_decoder_architecture multi_query alibi attn_config.alibi qk_layernorm
        use_qkv_bias use_bias bias attention_out_bias use_attention_gate scale_embedding mup_enabled
        enable_moe_block is_moe altup_correct_scale attention_k_eq_v
        add_swa_attention_sink_bias add_full_attention_sink_bias
        apply_residual_connection_post_layernorm attn_temperature_tuning use_double_wide_mlp
        moe_apply_router_weight_on_input use_routing_bias use_sliding_window"""),
    (WORD, """classifier_activation activation_function hidden_act hidden_activation model_type
        dtype torch_dtype
        gated_attention_proj_granularity_type mamba_ssm_cache_dtype mamba_ssm_dtype
        moe_router_activation_func moe_router_score_function score_function scoring_func
        output_gate_type shared_moe_mode topk_method expert_selection_fn
        shared_expert_combination_strategy activation"""),
    (listed(WORD), "layer_types layers_block_type mlp_layer_types indexer_types"),
    (listed(COUNT), """linear_attn_config.full_attn_layers linear_attn_config.kda_layers
        mlp_only_layers moe_layers ple_layer_ids kv_source_layers compress_ratios"""),
    (listed(FLAG), """hybrid_layer_pattern attn_type_list no_rope_layers
        sparse_attention_config.sparse_attention_freq"""),
    (either(WORD, listed(WORD)), "index_topk_pattern"),
    (either(COUNT, listed(FLAG)), "moe_layer_freq"),
    (whole(0, 64), "altup_num_inputs altup_active_idx"),
    (IDS, "eos_token_id"),
    (either(COUNT, WORD), """sliding_window_pattern _sliding_window_pattern
        global_attn_every_n_layers"""),
    (TABLE, "rope_parameters rope_scaling per_layer_config"),
)  # fmt: skip
KINDS: Mapping[str, Kind] = {key: kind for kind, keys in _BY_KIND for key in keys.split()}

# Of a rope dict.
ROPE: Mapping[str, Kind] = {
    **dict.fromkeys(("rope_type", "type"), WORD),
    **dict.fromkeys(
        (
            *("rope_theta", "partial_rotary_factor", "factor", "low_freq_factor"),
            *("high_freq_factor", "original_max_position_embeddings"),
        ),
        POSITIVE,
    ),
    **dict.fromkeys(
        ("beta_fast", "beta_slow", "mscale", "mscale_all_dim", "attention_factor"), NUMBER
    ),
    **{key: listed(POSITIVE) for key in ("short_factor", "long_factor")},
    "mrope_section": listed(COUNT),
}

# Keys that are read so that they are not reported, and whose value enters nothing; of the lengths
# of context any number is believed, as tokenizers state 10^30 for "no limit".
UNCHECKED = frozenset(
    """max_position_embeddings model_max_length n_positions context_length max_seq_len
    max_seq_length seq_length original_max_position_embeddings initial_context_length
    architectures qk_norm_type learnable_sink_init seed number_of_conv_states split_ngram_parts
    linear_a_log_min linear_a_log_max linear_dt_min linear_dt_max linear_dt_init_floor
    sparse_attention_config.sparse_disable_index_value sparse_attention_config.sparse_init_block
    sparse_attention_config.sparse_score_type""".split()
)


def of_example(value: Any) -> Kind | None:
    """The kind of a value that our tables or a default give; None where any would do."""
    if isinstance(value, bool):
        return FLAG
    if isinstance(value, int):
        return whole(-LARGEST)
    if isinstance(value, float):
        return NUMBER
    if isinstance(value, list | tuple) and value:
        entry = of_example(value[0])
        return None if entry is None else listed(entry)
    return WORD if isinstance(value, str) else None


def refusal(name: str, value: Any, kind: Kind, hint: str) -> Day0Error:
    """The error for a value that `kind` does not take."""
    return Day0Error(f"{name} is {shown(value)}; it must be {kind.says}", hint=hint)


def shown(value: Any) -> str:
    """A value for a message: one line, not too long, printable everywhere."""
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
