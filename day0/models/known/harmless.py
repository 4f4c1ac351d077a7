"""Config keys that change nothing of a forward pass of the text decoder.

The only filter on unread keys. Every entry is a key (any component of its path).
"""

# Bookkeeping of libraries and training.
LIBRARY = frozenset(
    {
        "_name_or_path", "architectures", "auto_map", "model_type", "transformers_version",
        "torchscript", "use_bfloat16", "tf_legacy_loss", "torch_dtype", "dtype", "use_cache",
        "initializer_range", "initializer_factor", "initializer_std", "output_attentions",
        "output_hidden_states", "return_dict", "return_dict_in_generate", "is_decoder",
        "is_encoder_decoder", "add_cross_attention", "cross_attention_hidden_size",
        "tie_encoder_decoder", "chunk_size_feed_forward", "pruned_heads", "finetuning_task",
        "problem_type", "id2label", "label2id", "task_specific_params", "prefix",
        "tokenizer_class", "remove_invalid_values", "gradient_checkpointing", "ignore_index",
        "_attn_implementation", "attn_implementation", "_attn_implementation_autoset",
        "pretraining_tp", "use_mamba_kernels", "ep_size", "aux_loss_alpha", "seq_aux",
        "router_aux_loss_coef", "output_router_logits", "router_jitter_noise", "router_z_loss_coef",
        "attention_dropout", "hidden_dropout", "dropout", "embd_pdrop", "attn_pdrop", "resid_pdrop",
        "hidden_dropout_prob", "embedding_dropout", "activation_dropout", "classifier_dropout",
        "image_placeholder", "max_window_layers", "load_balancing_loss_weight",
        "_commit_hash", "mtp_loss_scaling_factor", "mtp_lambda", "use_flash_attention",
        "layerdrop", "attention_probs_dropout_prob", "residual_dropout", "mlp_dropout", "emb_pdrop",
        "slow_but_exact", "n_ctx", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32",
        "embedding_initializer_range", "input_jitter_noise", "init_std", "init_device",
        "initializer_cutoff_factor", "classifier_activation", "classifier_bias", "cls_token_id",
        "aux_loss_coef", "lambda_std_dev", "attn_impl", "enable_moe_fp32_combine", "L_bp_cycles",
        "embedding_fraction", "moe_loss_weight", "moe_jitter_eps", "num_logits_to_keep", "pooling",
        "cache_implementation", "unsloth_fixed", "layer_norm_init", "rescale_prenorm_residual",
        "name_or_path", "residual_in_fp32",
    }
)  # fmt: skip
# Defaults of text generation, and token ids.
GENERATION = frozenset(
    {
        "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id",
        "forced_bos_token_id", "eod_token_id",
        "forced_eos_token_id", "bad_words_ids", "begin_suppress_tokens",
        "suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
        "encoder_no_repeat_ngram_size", "no_repeat_ngram_size", "length_penalty", "max_length",
        "min_length", "num_beam_groups", "num_beams", "num_return_sequences", "output_scores",
        "exponential_decay_length_penalty", "repetition_penalty", "temperature", "top_k", "top_p",
        "typical_p", "image_token_id", "image_token_index", "video_token_id",
        "vision_start_token_id",
        "vision_end_token_id", "vision_token_id", "audio_token_id", "media_placeholder_token_id",
        "boi_token_id", "eoi_token_id", "boi_token_index", "eoi_token_index", "boa_token_id",
        "eoa_token_id", "eoa_token_index", "audio_token_index", "image_start_token_id",
        "image_end_token_id", "video_start_token_id", "video_end_token_id",
        "image_seq_length", "projector_hidden_act", "multimodal_projector_bias",
        "vision_feature_layer", "vision_feature_select_strategy", "language_model_only",
        "mm_tokens_per_image",
    }
)  # fmt: skip
# Restate what other keys of the same file already fix; the readers check the others.
RESTATED = frozenset(
    {"qk_head_dim", "use_grouped_topk", "mhc", "index_kpool_compress", "moe_router_dtype",
     "head_dim_is_rope", "use_mtp", "mtp_transformer_layers",
     "vision_soft_tokens_per_image", "hc_post_alpha", "no_bias", "lm_head_bias", "use_post_norm",
     "gating",
     "word_embed_proj_dim", "enable_bias", "decoder_bias", "norm_bias", "num_ln_in_parallel_attn",
     "mtp_layer_types", "mtp_mlp_layer_types", "ngpt_alpha_init", "is_moe"}
)  # fmt: skip
# Towers and projectors: their tensors are explained as groups and never executed.
TOWERS = frozenset(
    {"vision_config", "audio_config", "merged_hidden_size", "spatial_merge_size",
     "projector_hidden_size", "downsample_ratio", "img_token_compression_config",
     "vision_model_type",
     "img_context_token_id", "image_newline_id", "video_token_index", "projection_dim",
     "mm_projector_type",
     "multimodal_projector", "adapter_bias", "patch_merge_size"}
)  # fmt: skip

HARMLESS = TOWERS | LIBRARY | GENERATION | RESTATED
