"""Which transformers classes and which sizes stand behind each type name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import hybrid, latent, plain
from .draw import Draw

# A vision tower of one layer: it has to be explained and summed, nobody runs it.
TOWER = {"hidden_size": 24, "intermediate_size": 30, "patch_size": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyType:
    """One type: its classes in transformers by name, and the function that draws its sizes.

    A composite type has `text_model_type`; its text words go below `text_config`, and `tower` and
    `top` beside them (`tower_width` names the tower's key that must equal hidden_size).
    """

    config_class: str
    model_class: str
    describe: Callable[[Draw], Mapping[str, Any]]
    text_model_type: str | None = None
    tower: Mapping[str, Any] = field(default_factory=dict)
    tower_width: str | None = None
    top: Mapping[str, Any] = field(default_factory=dict)

    def config_words(self, words: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of the config class for drawn text words."""
        if self.text_model_type is None:
            return dict(words)
        tower = dict(self.tower)
        if self.tower_width is not None:
            tower[self.tower_width] = words["hidden_size"]
        text = {**words, "model_type": self.text_model_type}
        return {"text_config": text, "vision_config": tower, **self.top}


def causal(
    stem: str, describe: Callable[[Draw], Mapping[str, Any]], *, text: bool = False
) -> TinyType:
    """A type whose model has a language-model head."""
    return TinyType(
        config_class=f"{stem}TextConfig" if text else f"{stem}Config",
        model_class=f"{stem}ForCausalLM",
        describe=describe,
    )


def headless(stem: str, describe: Callable[[Draw], Mapping[str, Any]]) -> TinyType:
    """A type whose text class ends at the final norm."""
    return TinyType(
        config_class=f"{stem}TextConfig", model_class=f"{stem}TextModel", describe=describe
    )


def qwen_composite(
    stem: str, text_model_type: str, describe: Callable[[Draw], Mapping[str, Any]]
) -> TinyType:
    """A Qwen text model below a vision tower."""
    return TinyType(
        config_class=f"{stem}Config",
        model_class=f"{stem}ForConditionalGeneration",
        describe=describe,
        text_model_type=text_model_type,
        tower={**TOWER, "depth": 1, "num_heads": 2, "num_position_embeddings": 16},
        tower_width="out_hidden_size",
    )


TYPES: dict[str, TinyType] = {
    "glm5_next": headless("Glm5Next", hybrid.glm5_next),
    "kimi_linear": causal("KimiLinear", hybrid.kimi_linear),
    "qwen3_next": causal("Qwen3Next", hybrid.qwen3_next),
    "qwen3_5": causal("Qwen3_5", hybrid.qwen3_5, text=True),
    "qwen3_5_moe": causal("Qwen3_5Moe", hybrid.qwen3_5_moe, text=True),
    "qwen4_exp": causal("Qwen4Exp", hybrid.qwen4_exp, text=True),
    "olmo_hybrid": causal("OlmoHybrid", hybrid.olmo_hybrid),
    "bailing_hybrid": causal("BailingHybrid", hybrid.bailing_hybrid),
    "lara_mini": causal("LaraMini", hybrid.lara_mini),
    "minimax": causal("MiniMax", hybrid.minimax),
    "deepseek_v2": causal("DeepseekV2", latent.deepseek_v2),
    "deepseek_v3": causal("DeepseekV3", latent.deepseek_v3),
    "deepseek_v32": causal("DeepseekV32", latent.deepseek_v32),
    "glm_moe_dsa": causal("GlmMoeDsa", latent.glm_moe_dsa),
    "deepseek_v4": causal("DeepseekV4", latent.deepseek_v4),
    "minimax_m3": causal("MiniMaxM3VL", latent.minimax_m3, text=True),
    "hy_v4": causal("HYV4", latent.hy_v4),
    "axk2": causal("AXK2", latent.axk2),
    "dots3_note": causal("Dots3Note", latent.dots3_note, text=True),
    "mistral_large4": headless("MistralLarge4", latent.mistral_large4),
    "llama": causal("Llama", plain.llama),
    "mistral": causal("Mistral", plain.mistral),
    "qwen2": causal("Qwen2", plain.qwen2),
    "qwen3": causal("Qwen3", plain.qwen3),
    "qwen3_moe": causal("Qwen3Moe", plain.qwen3_moe),
    "mixtral": causal("Mixtral", plain.mixtral),
    "glm4_moe": causal("Glm4Moe", plain.glm4_moe),
    "gpt_oss": causal("GptOss", plain.gpt_oss),
    "gemma3": causal("Gemma3", plain.gemma3, text=True),
    "gemma4": causal("Gemma4", plain.gemma4, text=True),
}

# The same decoders as hubs ship them: a vision tower beside, and the names of the released files,
# which text-only saves of minimax_m3 and mistral_large4 do not have.
COMPOSITES: dict[str, TinyType] = {
    "glm5_next_composite": TinyType(
        config_class="Glm5NextConfig",
        model_class="Glm5NextForConditionalGeneration",
        describe=hybrid.glm5_next,
        text_model_type="glm5_next_text",
        tower={
            **TOWER,
            "depth": 1,
            "num_heads": 2,
            "image_size": 8,
            "projection_intermediate_size": 34,
        },
        tower_width="out_hidden_size",
    ),
    "qwen3_5_composite": qwen_composite("Qwen3_5", "qwen3_5_text", hybrid.qwen3_5),
    "qwen3_5_moe_composite": qwen_composite("Qwen3_5Moe", "qwen3_5_moe_text", hybrid.qwen3_5_moe),
    "qwen4_exp_composite": qwen_composite("Qwen4Exp", "qwen4_exp_text", hybrid.qwen4_exp),
    "minimax_m3_composite": TinyType(
        config_class="MiniMaxM3VLConfig",
        model_class="MiniMaxM3SparseForConditionalGeneration",
        describe=latent.minimax_m3,
        text_model_type="minimax_m3_vl_text",
        tower={**TOWER, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 8},
        top={"projector_hidden_size": 36},
    ),
    "mistral_large4_composite": TinyType(
        config_class="MistralLarge4Config",
        model_class="MistralLarge4ForConditionalGeneration",
        describe=latent.mistral_large4,
        text_model_type="mistral_large4_text",
        tower={
            **TOWER,
            "model_type": "pixtral",
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "head_dim": 12,
            "image_size": 8,
        },
    ),
}

ALL_TYPES = TYPES | COMPOSITES
