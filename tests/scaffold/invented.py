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


def write(folder: Path, seed: int) -> Path:
    """config.json and model.safetensors with random fp32 weights."""
    folder.mkdir(parents=True)
    draw = random.Random(seed)
    header, data, at = {}, bytearray(), 0
    for name, dims in shapes().items():
        count = math.prod(dims)
        scale = 1.0 if len(dims) == 1 else dims[1] ** -0.5
        data += array.array("f", (draw.gauss(0.0, scale) for _ in range(count))).tobytes()
        header[name] = {"dtype": "F32", "shape": dims, "data_offsets": [at, at + 4 * count]}
        at += 4 * count
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder
