"""A tiny checkpoint with a mixer that nobody has heard of, written without torch.

Layers 0 and 2 mix by a decayed linear attention with a gate on the values: per head
S <- sigmoid(decay) S + k (x) (v * sigmoid(x gate')), y = S^T q, then o_proj. Layer 1 is plain
grouped-query attention.
"""

import array
import json
import math
import random
import struct
from pathlib import Path
from typing import Any

HIDDEN, HEADS, HEAD_DIM, INNER, VOCAB = 24, 4, 8, 40, 64
MIXER = {
    "q_proj.weight": (HEADS * HEAD_DIM, HIDDEN),
    "k_proj.weight": (HEADS * HEAD_DIM, HIDDEN),
    "v_proj.weight": (HEADS * HEAD_DIM, HIDDEN),
    "value_gate.weight": (HEADS * HEAD_DIM, HIDDEN),
    "decay": (HEADS,),
    "o_proj.weight": (HIDDEN, HEADS * HEAD_DIM),
}
CONFIG = {
    "architectures": ["UnheardOfForCausalLM"],
    "model_type": "unheard_of",
    "dtype": "float32",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "rope_theta": 10000.0,
    "vocab_size": VOCAB,
    "max_position_embeddings": 128,
    "tie_word_embeddings": True,
    "decay_gate_rank": 3,
}
# What the tensors do not tell of layer 1.
FACTS = {"gqa.rope_pairing": "half"}


def shapes() -> dict[str, tuple[int, ...]]:
    """Every tensor of the checkpoint."""
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCAB, HIDDEN)}
    for layer in range(3):
        at = f"model.layers.{layer}."
        if layer == 1:
            sizes = {"q_proj": (24, HIDDEN), "k_proj": (8, HIDDEN), "v_proj": (8, HIDDEN),
                     "o_proj": (HIDDEN, 24)}  # fmt: skip
            found |= {f"{at}self_attn.{name}.weight": dims for name, dims in sizes.items()}
        else:
            found |= {f"{at}mixer.{name}": dims for name, dims in MIXER.items()}
        found |= {
            f"{at}input_layernorm.weight": (HIDDEN,),
            f"{at}post_attention_layernorm.weight": (HIDDEN,),
            f"{at}mlp.gate_proj.weight": (INNER, HIDDEN),
            f"{at}mlp.up_proj.weight": (INNER, HIDDEN),
            f"{at}mlp.down_proj.weight": (HIDDEN, INNER),
        }
    return found | {"model.norm.weight": (HIDDEN,)}


def strange() -> tuple[dict[str, tuple[int, ...]], dict[str, Any]]:
    """(tensors, config) with what is awkward to write down: a feed-forward of numbered blocks that
    nobody has heard of either, two modules in one mixer, names that are long, Python's own words,
    used up, or no names at all."""
    long = "a_module_whose_name_is_longer_than_any_line_should_have_to_hold"
    tensors = {
        name.replace(".mixer.", f".{long}."): dims
        for name, dims in shapes().items()
        if ".mlp." not in name
    }
    for layer in range(3):
        at = f"model.layers.{layer}.mlp."
        for expert in range(3):
            tensors[f"{at}blocks.{expert}.in.weight"] = (INNER, HIDDEN)
            tensors[f"{at}blocks.{expert}.class-2.weight"] = (HIDDEN, INNER)
        tensors |= {f"{at}y": (3, HIDDEN), f"{at}positions.weight": (HIDDEN,)}
        if layer != 1:
            tensors[f"model.layers.{layer}.second.weight"] = (HIDDEN, HIDDEN)
    words = {
        key: value
        for key, value in CONFIG.items()
        if key not in ("intermediate_size", "hidden_act")
    }
    words |= {
        "model_type": '1-model type/of "no" known kind, and a long one',
        "in": {"lambda": 3},
        "half \ud800": 1,
    }
    return tensors, words


def write(
    folder: Path,
    seed: int,
    tensors: dict[str, tuple[int, ...]] | None = None,
    config: dict[str, Any] | None = None,
) -> Path:
    """config.json and model.safetensors with random fp32 weights."""
    folder.mkdir(parents=True)
    draw = random.Random(seed)
    header, data, at = {}, bytearray(), 0
    for name, dims in (tensors or shapes()).items():
        count = math.prod(dims)
        scale = 1.0 if len(dims) == 1 else dims[1] ** -0.5
        data += array.array("f", (draw.gauss(0.0, scale) for _ in range(count))).tobytes()
        header[name] = {"dtype": "F32", "shape": dims, "data_offsets": [at, at + 4 * count]}
        at += 4 * count
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(config or CONFIG))
    return folder
