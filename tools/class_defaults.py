"""Writes day0/models/known/class_defaults.json from the installed transformers.

    python tools/class_defaults.py

For every text decoder class: the default of each simple config key. A release's config.json may
leave out what equals them.
"""

import dataclasses
import json
from pathlib import Path

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

TARGET = Path(__file__).parent.parent / "day0/models/known/class_defaults.json"
SKIP = {
    "transformers_version", "architectures", "output_hidden_states", "return_dict", "dtype",
    "chunk_size_feed_forward", "is_encoder_decoder", "id2label", "label2id", "problem_type",
    "use_cache", "initializer_range", "attention_dropout", "bos_token_id", "eos_token_id",
    "pad_token_id", "output_attentions", "vocab_size", "hidden_size", "num_hidden_layers",
}  # fmt: skip
EXTRA = (
    "glm5_next_text", "mistral_large4_text", "minimax_m3_vl_text", "hy_v4_vl_text",
    "muse_glimmer_text", "muse_spark_text", "step3p7_text", "glm4v_moe_text", "glm4v_text",
    "glm_ocr_text", "granite_docling_text", "hunyuan_vl_text", "qwen2_5_vl_text", "qwen2_vl_text",
)  # fmt: skip


def simple(value: object) -> bool:
    return isinstance(value, bool | int | float | str)


def main() -> None:
    table = {}
    for name in sorted({*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *EXTRA}):
        if name not in CONFIG_MAPPING:
            continue
        kind = CONFIG_MAPPING[name]
        if not dataclasses.is_dataclass(kind):
            continue
        renamed = getattr(kind, "attribute_map", {}) or {}
        defaults = {}
        for field in dataclasses.fields(kind):
            if field.name in SKIP or field.name.startswith("_") or not simple(field.default):
                continue
            defaults[renamed.get(field.name, field.name)] = field.default
        table[name] = dict(sorted(defaults.items()))
    content = {
        "source": f"transformers {transformers.__version__}, configuration classes",
        "defaults": table,
    }
    TARGET.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{len(table)} types")


if __name__ == "__main__":
    main()
