"""model_type words whose configs we know whole, class defaults and unstated facts included.

A config of another type without headers is trusted only when every one of its keys is read.
"""

COVERED = (
    "afmoe", "apertus", "apertus1p5_text", "arcee", "aria_text", "axk1", "axk2", "bailing_hybrid",
    "bailing_moe_v3", "beam", "bitnet", "bloom", "codegen", "cohere", "cohere2", "cohere2_moe",
    "cohere_compass_text", "cwm", "dbrx", "deepseek_ref", "deepseek_v2", "deepseek_v3",
    "deepseek_v32", "deepseek_v4", "diffllama", "dots1", "dots3_note", "dots3_note_text",
    "ernie4_5", "ernie4_5_moe", "exaone", "exaone4", "exaone_moe", "flex_olmo", "flint", "gemma",
    "gemma2", "gemma3", "gemma3_text", "gemma3n_text", "gemma4_text", "gemma4_unified_text", "glm",
    "glm4", "glm4_moe", "glm4_moe_lite", "glm4v_moe_text", "glm4v_text", "glm5_next",
    "glm5_next_text", "glm_moe_dsa", "glm_ocr_text", "gpt_bigcode", "gpt_neox", "gpt_oss",
    "granite", "granite_docling_text", "granite_swa", "granitemoe", "granitemoe_swa",
    "granitemoeshared", "helium", "hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl_text", "hy_v3",
    "hy_v4", "hy_v4_vl_text", "hyperclovax", "internlm3", "iquestcoder", "jais2", "kimi_k2",
    "kimi_k25", "kimi_k3", "kimi_linear", "kolibri1", "laguna", "lara_mini", "llama", "llama4_text",
    "mellum", "mimo_v2_flash", "minicpm3", "minimax", "minimax_m1", "minimax_m2", "minimax_m3",
    "minimax_m3_vl", "minimax_m3_vl_text", "ministral", "ministral3", "mistral", "mistral_large4",
    "mistral_large4_text", "mixtral", "mpt", "muse_glimmer_text", "nanochat", "nemotron", "olmo",
    "olmo2", "olmo3", "olmo_hybrid", "olmoe", "opt", "persimmon", "phi", "phi3", "phimoe", "qwen2",
    "qwen2_5_vl_text", "qwen2_moe", "qwen2_vl_text", "qwen3", "qwen3_5", "qwen3_5_moe",
    "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe", "qwen3_next", "qwen3_vl", "qwen3_vl_moe",
    "qwen3_vl_moe_text", "qwen3_vl_text", "qwen4_exp", "qwen4_exp_text", "sarvam_mla",
    "sarvam_moe", "seed_oss", "smollm3", "solar_open", "stablelm", "starcoder2", "vaultgemma",
    "youtu",
)  # fmt: skip

# Types that are read whole with headers and not without: a tensor or two of theirs follow no word.
HEADERS_ONLY = ("biogpt", "gpt_neox_japanese", "modernbert-decoder", "phi4_multimodal")
