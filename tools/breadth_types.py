"""Writes tests/breadth/types.txt from the installed transformers.

    python tools/breadth_types.py

The current decoder-only types: the causal-LM mapping less the named ones below, and text types
that stand outside the mapping because only their composite has a head.
"""

from pathlib import Path

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

TARGET = Path(__file__).parent.parent / "tests/breadth/types.txt"
SKIP = {
    "encoder": """bert bert-generation big_bird camembert cpmant data2vec-text electra ernie
        megatron-bert rembert roberta roberta-prelayernorm roc_bert roformer xlm xlm-roberta
        xlm-roberta-xl xlnet xmod""",
    "decoder of an encoder-decoder": """bart bigbird_pegasus blenderbot blenderbot-small marian
        mbart mvp pegasus plbart prophetnet""",
    "audio or vision decoder": """git mllama moshi moss_transcribe_diarize musicgen
        musicgen_melody trocr whisper""",
    "before 2022": "ctrl gpt2 gpt-sw3 gpt_neo gptj openai-gpt xglm",
    "named by the issue": "blt reformer rwkv xlstm",
    "draft head over another model's caches": "gemma4_assistant gemma4_unified_assistant",
    "composite whose text type stands in the list": """dots3_note emu3 fuyu gemma3 gemma3n gemma4
        gemma4_unified got_ocr2 llama4 qwen3_5 qwen3_5_moe qwen4_exp""",
}
OUTSIDE = (
    "glm4v_moe_text", "glm4v_text", "glm5_next_text", "glm_ocr_text", "granite_docling_text",
    "hunyuan_vl_text", "hy_v4_vl_text", "mistral_large4_text", "muse_glimmer_text",
    "muse_spark_text", "qwen2_5_vl_text", "qwen2_vl_text", "qwen3_vl_moe_text", "qwen3_vl_text",
    "step3p7_text",
)  # fmt: skip


def types() -> list[str]:
    """The list, sorted."""
    skipped = {name for names in SKIP.values() for name in names.split()}
    strange = sorted(skipped - set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))
    assert not strange, f"skipped, and not in the mapping: {strange}"
    outside = [name for name in OUTSIDE if name in CONFIG_MAPPING]
    return sorted({*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *outside} - skipped)


def main() -> None:
    found = types()
    head = f"# transformers {transformers.__version__}, written by tools/breadth_types.py\n"
    TARGET.write_text(head + "\n".join(found) + "\n", encoding="utf-8")
    print(f"{len(found)} types")


if __name__ == "__main__":
    main()
