"""Switches of configs with the one value that everything here executes.

Read and left alone at that value; at another one `run` refuses, as with every decisive fact that
is merely assumed.
"""

ONLY = {
    "use_bidirectional_attention": (False, "vision"),  # "vision": between tokens of one image
    "mtp_use_dedicated_embeddings": (False,),
    "use_mrope": (False,),
    "moe_gate_act": ("softmax",),  # Ernie's score, which our tables have
    "do_layer_norm_before": (True,),
    "_remove_final_layer_norm": (False,),
    "layer_norm_elementwise_affine": (True,),
    "scale_attn_weights": (True,),
    "attn_config.prefix_lm": (False,),
    "attn_config.attn_uses_sequence_id": (False,),
    "attn_config.qk_ln": (False,),
    "attn_config.attn_type": ("multihead_attention",),
    "learned_pos_emb": (True,),  # where ALiBi stands in for it
    "norm_type": ("low_precision_layernorm", "layernorm"),
    "use_double_wide_mlp": (False, True),  # the widths of tensors tell
    "moe_shared_expert_overlap": (False, True),  # of streams, not of values
    "ffn_config.ffn_act_fn.name": ("silu",),
    "ffn_config.moe_normalize_expert_weights": (1, 1.0),
}
