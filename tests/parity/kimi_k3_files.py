"""A tiny Kimi-K3 checkpoint: its words, its tensor names, its padding, its packed experts."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

H, V, LAYERS, BLOCK = 40, 97, 7, 3  # blocks of layers 0-2, 3-5, and an incomplete one: 6
KDA, FULL = (1, 2, 3, 5), (4, 6, 7)  # counted from 1; the last two are both full
HEADS, D, TAPS, STORED = 3, 10, 4, 5  # A_log holds two more values than there are heads
NH, NOPE, EXTRA, VALUE, Q_RANK, KV_RANK = 6, 13, 7, 11, 23, 21
DENSE, EXPERTS, CHOSEN, SHARED, INNER, LATENT = 46, 9, 3, 2, 64, 32
QUANTISED = {
    "quant_method": "compressed-tensors",
    "format": "mxfp4-pack-quantized",
    "quantization_status": "compressed",
    "ignore": ["re:.*self_attn.*", "re:.*shared_experts.*", "re:.*lm_head.*",
               r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"],
    "config_groups": {
        "group_0": {
            "format": "mxfp4-pack-quantized",
            "targets": ["Linear"],
            "input_activations": None,
            "output_activations": None,
            "weights": {"num_bits": 4, "type": "float", "group_size": 32, "strategy": "group",
                        "symmetric": True, "dynamic": False, "scale_dtype": "torch.uint8"},
        }
    },
}  # fmt: skip


def text_config(*, packed: bool) -> dict[str, Any]:
    words = {
        "architectures": ["KimiLinearForCausalLM"],
        "model_type": "kimi_linear",
        "dtype": "float32",
        "activation_situ_beta": 1.5,
        "activation_situ_linear_beta": 2.5,
        "attn_res_block_size": BLOCK,
        "first_k_dense_replace": 1,
        "hidden_act": "situ",
        "hidden_size": H,
        "intermediate_size": DENSE,
        "kv_lora_rank": KV_RANK,
        "latent_moe_use_norm": True,
        "linear_attn_config": {
            "full_attn_layers": list(FULL),
            "gate_lower_bound": -3.0,
            "head_dim": D,
            "kda_layers": list(KDA),
            "num_heads": HEADS,
            "short_conv_kernel_size": TAPS,
            "use_full_rank_gate": True,
        },
        "max_position_embeddings": 4096,
        "mla_use_nope": True,
        "mla_use_output_gate": True,
        "moe_intermediate_size": INNER,
        "moe_layer_freq": 1,
        "moe_renormalize": True,
        "moe_router_activation_func": "sigmoid",
        "num_attention_heads": NH,
        "num_expert_group": 1,
        "num_experts": EXPERTS,
        "num_experts_per_token": CHOSEN,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": NH,
        "num_nextn_predict_layers": 0,
        "num_shared_experts": SHARED,
        "q_lora_rank": Q_RANK,
        "qk_nope_head_dim": NOPE,
        "qk_rope_head_dim": EXTRA,
        "rms_norm_eps": 3e-3,
        "routed_expert_hidden_size": LATENT,
        "routed_scaling_factor": 1.25,
        "tie_word_embeddings": False,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "use_grouped_topk": True,
        "v_head_dim": VALUE,
        "vocab_size": V,
    }
    return words | ({"quantization_config": QUANTISED} if packed else {})


def write(folder: Path, seed: int, *, packed: bool) -> dict[str, Any]:
    """Write the checkpoint; the text words and `tensors`."""
    folder.mkdir(parents=True)
    made = Maker(seed, packed=packed)
    made.decoder()
    config = {
        "architectures": ["KimiK3ForConditionalGeneration"],
        "model_type": "kimi_k3",
        "dtype": "float32",
        "tie_word_embeddings": False,
        "text_config": text_config(packed=packed),
    }
    (folder / "config.json").write_text(json.dumps(config))
    save_file(made.tensors, folder / "model.safetensors")
    return {"config": config["text_config"], "tensors": made.tensors}


class Maker:
    """Random tensors by name, at scales that keep values near one."""

    def __init__(self, seed: int, *, packed: bool) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.packed = packed
        self.tensors: dict[str, torch.Tensor] = {}

    def normal(self, name: str, *shape: int, scale: float = 1.0, center: float = 0.0) -> None:
        drawn = torch.randn(shape, generator=self.generator) * scale + center
        self.tensors[name] = drawn

    def matrix(self, name: str, rows: int, columns: int) -> None:
        self.normal(f"{name}.weight", rows, columns, scale=1.3 * columns**-0.5)

    def norm(self, name: str, size: int) -> None:
        self.normal(f"{name}.weight", size, scale=0.2, center=1.1)

    def mxfp4(self, name: str, rows: int, columns: int) -> None:
        def draw(high: int, *shape: int) -> torch.Tensor:
            return torch.randint(high, shape, generator=self.generator).to(torch.uint8)

        self.tensors[f"{name}.weight_packed"] = draw(256, rows, columns // 2)
        self.tensors[f"{name}.weight_scale"] = draw(3, rows, columns // 32) + 121

    def decoder(self) -> None:
        stem = "language_model.model."
        self.normal(f"{stem}embed_tokens.weight", V, H)
        for layer in range(LAYERS):
            at = f"{stem}layers.{layer}."
            for name in ("self_attention_res", "mlp_res"):
                self.norm(f"{at}{name}_norm", H)
                self.matrix(f"{at}{name}_proj", 1, H)
            self.norm(f"{at}input_layernorm", H)
            self.norm(f"{at}post_attention_layernorm", H)
            (self.kda if layer + 1 in KDA else self.mla)(f"{at}self_attn.")
            if layer:
                self.moe(f"{at}block_sparse_moe.")
            else:
                self.mlp(f"{at}mlp.", DENSE)
        self.norm(f"{stem}output_attn_res_norm", H)
        self.matrix(f"{stem}output_attn_res_proj", 1, H)
        self.norm(f"{stem}norm", H)
        self.matrix("language_model.lm_head", V, H)

    def kda(self, at: str) -> None:
        for name in ("q", "k", "v"):
            self.matrix(f"{at}{name}_proj", HEADS * D, H)
            self.normal(f"{at}{name}_conv1d.weight", HEADS * D, 1, TAPS, scale=0.6)
        self.matrix(f"{at}f_a_proj", D, H)
        self.matrix(f"{at}f_b_proj", HEADS * D, D)
        self.matrix(f"{at}b_proj", HEADS, H)
        self.matrix(f"{at}g_proj", HEADS * D, H)
        self.norm(f"{at}o_norm", D)
        self.matrix(f"{at}o_proj", H, HEADS * D)
        self.normal(f"{at}A_log", STORED, scale=0.5)
        self.normal(f"{at}dt_bias", HEADS * D, center=-1.0)

    def mla(self, at: str) -> None:
        self.matrix(f"{at}q_a_proj", Q_RANK, H)
        self.norm(f"{at}q_a_layernorm", Q_RANK)
        self.matrix(f"{at}q_b_proj", NH * (NOPE + EXTRA), Q_RANK)
        self.matrix(f"{at}kv_a_proj_with_mqa", KV_RANK + EXTRA, H)
        self.norm(f"{at}kv_a_layernorm", KV_RANK)
        self.matrix(f"{at}kv_b_proj", NH * (NOPE + VALUE), KV_RANK)
        self.matrix(f"{at}g_proj", NH * VALUE, H)
        self.matrix(f"{at}o_proj", H, NH * VALUE)

    def moe(self, at: str) -> None:
        self.matrix(f"{at}gate", EXPERTS, H)
        self.normal(f"{at}gate.e_score_correction_bias", EXPERTS, scale=0.1)
        self.matrix(f"{at}routed_expert_down_proj", LATENT, H)
        self.norm(f"{at}routed_expert_norm", LATENT)
        self.matrix(f"{at}routed_expert_up_proj", H, LATENT)
        store = self.mxfp4 if self.packed else self.matrix
        for expert in range(EXPERTS):
            store(f"{at}experts.{expert}.w1", INNER, LATENT)
            store(f"{at}experts.{expert}.w3", INNER, LATENT)
            store(f"{at}experts.{expert}.w2", LATENT, INNER)
        self.mlp(f"{at}shared_experts.", SHARED * INNER)

    def mlp(self, at: str, width: int) -> None:
        self.matrix(f"{at}gate_proj", width, H)
        self.matrix(f"{at}up_proj", width, H)
        self.matrix(f"{at}down_proj", H, width)
