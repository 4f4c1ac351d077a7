"""model_type words whose configs we know whole, class defaults and unstated facts included.

A config of another type without headers is trusted only when every one of its keys is read.
"""

COVERED = (
    "axk2", "bailing_hybrid", "bailing_moe_v3", "deepseek_ref", "deepseek_v2", "deepseek_v3",
    "deepseek_v32", "deepseek_v4", "dots3_note", "dots3_note_text", "glm4_moe", "glm5_next",
    "glm5_next_text", "glm_moe_dsa", "gpt_oss", "hy_v4", "kimi_k2", "kimi_k25", "kimi_k3",
    "kimi_linear", "lara_mini", "llama", "minimax", "minimax_m1", "minimax_m3", "minimax_m3_vl",
    "minimax_m3_vl_text", "mistral", "mistral_large4", "mistral_large4_text", "mixtral",
    "olmo_hybrid", "qwen2", "qwen3", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text",
    "qwen3_moe", "qwen3_next", "qwen3_vl", "qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3_vl_text",
    "qwen4_exp", "qwen4_exp_text",
)  # fmt: skip
