"""Writes the demo checkpoint, day0/demo: a tiny hybrid with every mechanism of day0's first models.

    python tools/make_demo.py [FOLDER]

Standard library only, and no floating-point generator: each tensor's bytes come from a hash of its
name, so that every machine and every version of Python writes the same files.
"""

import hashlib
import json
import struct
import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

TARGET = Path(__file__).parent.parent / "day0/demo"
SEED = "day0 demo 1"

HIDDEN = 256
LAYERS = 8
PERIOD = 4  # three KDA layers, then one of sparse latent attention
KDA_HEADS, KDA_DIM, CONV = 4, 64, 4
HEADS, NOPE, EXTRA, VALUE, Q_RANK, KV_RANK = 4, 64, 32, 64, 128, 128
INDEX_HEADS, INDEX_DIM, TOP_K, POOL = 8, 64, 32, 4
DENSE, EXPERTS, EXPERT, CHOSEN = 512, 8, 32, 2

SPECIAL = ("<|begin|>", "<|end|>", "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>")
BYTES = 256
# Rounded up to a multiple of 16, which the fastest matrix products want.
VOCAB = 272

SPARSE = tuple(i for i in range(LAYERS) if i % PERIOD == PERIOD - 1)
LINEAR = tuple(i for i in range(LAYERS) if i not in SPARSE)


class Tensor(NamedTuple):
    """`center` and `spread` of the values: their mean and standard deviation in bf16 (a sum of
    four uniform bytes), the middle and half the width of a uniform range in fp32."""

    name: str
    shape: tuple[int, ...]
    center: float
    spread: float
    dtype: str = "BF16"


def main(folder: Path) -> None:
    """Write all files of the checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("config.json", config()),
        ("generation_config.json", generation_config()),
        ("tokenizer.json", tokenizer()),
        ("tokenizer_config.json", tokenizer_config()),
    ):
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (folder / name).write_bytes(text.encode())
    (folder / "model.safetensors").write_bytes(safetensors(tuple(tensors())))


def config() -> dict[str, Any]:
    """GLM-5.3-Flash's words, and Kimi-K3's for the attention residual, the output gate and latent
    attention without positions."""
    return {
        "architectures": ["Day0DemoForCausalLM"],
        "model_type": "day0_demo",
        "dtype": "bfloat16",
        "attention_bias": False,
        "attn_res_block_size": PERIOD,
        "bos_token_id": BYTES + SPECIAL.index("<|begin|>"),
        "eos_token_id": BYTES + SPECIAL.index("<|end|>"),
        "pad_token_id": BYTES + SPECIAL.index("<|pad|>"),
        "first_k_dense_replace": 1,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "index_head_dim": INDEX_DIM,
        "index_kpool": POOL,
        "index_kpool_always_select_tail": True,
        "index_kpool_compress": True,
        "index_n_heads": INDEX_HEADS,
        "index_topk": TOP_K,
        "intermediate_size": DENSE,
        "kv_lora_rank": KV_RANK,
        "layer_types": [
            "deepseek_sparse_attention" if i in SPARSE else "linear_attention"
            for i in range(LAYERS)
        ],
        "linear_attn_config": {
            "full_attn_layers": list(SPARSE),
            "gate_lower_bound": -5.0,
            "head_dim": KDA_DIM,
            "kda_layers": list(LINEAR),
            "num_heads": KDA_HEADS,
            "short_conv_kernel_size": CONV,
        },
        "max_position_embeddings": 131072,
        "mla_use_nope": True,
        "mla_use_output_gate": True,
        "mlp_layer_types": ["dense"] + ["sparse"] * (LAYERS - 1),
        "moe_intermediate_size": EXPERT,
        "n_group": 1,
        "n_routed_experts": EXPERTS,
        "n_shared_experts": 1,
        "norm_topk_prob": True,
        "num_attention_heads": HEADS,
        "num_experts_per_tok": CHOSEN,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": HEADS,
        "num_nextn_predict_layers": 1,
        "q_lora_rank": Q_RANK,
        "qk_nope_head_dim": NOPE,
        "qk_rope_head_dim": EXTRA,
        "rms_norm_eps": 1e-05,
        "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid",
        "tie_word_embeddings": False,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "v_head_dim": VALUE,
        "vocab_size": VOCAB,
    }


def generation_config() -> dict[str, Any]:
    """Token ids; how to sample is left to whoever runs the model."""
    return {key: value for key, value in config().items() if key.endswith("_token_id")}


def tensors() -> Iterator[Tensor]:
    """Every tensor of the checkpoint. Scales keep values near 1 through all layers, the logits
    about 2 apart, and the experts about equally busy."""
    yield Tensor("model.embed_tokens.weight", (VOCAB, HIDDEN), 0.0, 1.0)
    for index in range(LAYERS):
        layer = f"model.layers.{index}."
        for name in ("self_attention", "mlp"):
            yield norm(f"{layer}{name}_res_norm", HIDDEN)
            yield linear(f"{layer}{name}_res_proj", 1, HIDDEN)
        yield norm(f"{layer}input_layernorm", HIDDEN)
        yield from latent_attention(layer) if index in SPARSE else delta_attention(layer)
        yield norm(f"{layer}post_attention_layernorm", HIDDEN)
        yield from mixture(layer) if index else feed_forward(f"{layer}mlp.", DENSE)
    yield norm("model.output_attn_res_norm", HIDDEN)
    yield linear("model.output_attn_res_proj", 1, HIDDEN)
    yield norm("model.norm", HIDDEN)
    yield linear("lm_head", VOCAB, HIDDEN, gain=2.0)
    yield from draft(f"model.layers.{LAYERS}.")


def draft(layer: str) -> Iterator[Tensor]:
    """The MTP layer: no attention residual (as in Kimi-K3's drafts), embedding and head shared."""
    for name in ("enorm", "hnorm", "input_layernorm", "post_attention_layernorm"):
        yield norm(f"{layer}{name}", HIDDEN)
    yield linear(f"{layer}eh_proj", HIDDEN, 2 * HIDDEN)
    yield from latent_attention(layer)
    yield from mixture(layer)
    yield norm(f"{layer}shared_head.norm", HIDDEN)


def delta_attention(layer: str) -> Iterator[Tensor]:
    """KDA. The decay's range lets a state remember from one token to a few hundred."""
    at, width = f"{layer}self_attn.", KDA_HEADS * KDA_DIM
    for name in ("q", "k", "v"):
        yield linear(f"{at}{name}_proj", width, HIDDEN)
        yield Tensor(f"{at}{name}_conv1d.weight", (width, 1, CONV), 0.0, CONV**-0.5)
    for name in ("f", "g"):
        yield linear(f"{at}{name}_a_proj", KDA_DIM, HIDDEN)
        yield linear(f"{at}{name}_b_proj", width, KDA_DIM)
    yield linear(f"{at}b_proj", KDA_HEADS, HIDDEN)
    yield Tensor(f"{at}A_log", (KDA_HEADS,), 0.0, 0.5, "F32")
    yield Tensor(f"{at}dt_bias", (width,), -3.5, 2.5, "F32")
    yield norm(f"{at}o_norm", KDA_DIM)
    yield linear(f"{at}o_proj", HIDDEN, width)


def latent_attention(layer: str) -> Iterator[Tensor]:
    """Gated latent attention without positions, and its pooled indexer."""
    at = f"{layer}self_attn."
    yield linear(f"{at}q_a_proj", Q_RANK, HIDDEN)
    yield norm(f"{at}q_a_layernorm", Q_RANK)
    yield linear(f"{at}q_b_proj", HEADS * (NOPE + EXTRA), Q_RANK, gain=1.5)
    yield linear(f"{at}kv_a_proj_with_mqa", KV_RANK + EXTRA, HIDDEN)
    yield norm(f"{at}kv_a_layernorm", KV_RANK)
    yield linear(f"{at}kv_b_proj", HEADS * (NOPE + VALUE), KV_RANK)
    yield linear(f"{at}g_proj", HEADS * VALUE, HIDDEN)
    yield linear(f"{at}o_proj", HIDDEN, HEADS * VALUE)
    inner = f"{at}indexer."
    yield linear(f"{inner}wq_b", INDEX_HEADS * INDEX_DIM, Q_RANK)
    yield linear(f"{inner}wk", INDEX_DIM, HIDDEN)
    yield norm(f"{inner}k_norm", INDEX_DIM)
    yield Tensor(f"{inner}k_norm.bias", (INDEX_DIM,), 0.0, 0.1)
    yield linear(f"{inner}weights_proj", INDEX_HEADS, HIDDEN)
    yield Tensor(f"{inner}index_kpool_compress_gate", (INDEX_DIM, HIDDEN), 0.0, HIDDEN**-0.5)
    yield Tensor(f"{inner}index_kpool_compress_ape", (POOL, INDEX_DIM), 0.0, 0.5)


def mixture(layer: str) -> Iterator[Tensor]:
    """Router with a bias that only selects, experts, one shared expert."""
    at = f"{layer}mlp."
    yield linear(f"{at}gate", EXPERTS, HIDDEN)
    yield Tensor(f"{at}gate.e_score_correction_bias", (EXPERTS,), 0.0, 0.02, "F32")
    for expert in range(EXPERTS):
        yield from feed_forward(f"{at}experts.{expert}.", EXPERT)
    yield from feed_forward(f"{at}shared_experts.", EXPERT)


def feed_forward(at: str, width: int) -> Iterator[Tensor]:
    yield linear(f"{at}gate_proj", width, HIDDEN)
    yield linear(f"{at}up_proj", width, HIDDEN)
    yield linear(f"{at}down_proj", HIDDEN, width)


def linear(name: str, rows: int, columns: int, gain: float = 1.0) -> Tensor:
    """A matrix that keeps the scale of its input, times `gain`."""
    return Tensor(f"{name}.weight", (rows, columns), 0.0, gain * columns**-0.5)


def norm(name: str, size: int) -> Tensor:
    """A gain near 1, so that a norm left out shows."""
    return Tensor(f"{name}.weight", (size,), 1.0, 0.1)


def safetensors(content: tuple[Tensor, ...]) -> bytes:
    """The file: the header's length, the header in JSON, the data; wider types first, so that
    every tensor is aligned."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = bytearray()
    for tensor in sorted(content, key=lambda tensor: (tensor.dtype != "F32", tensor.name)):
        start = len(data)
        data += values(tensor)
        header[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [start, len(data)],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def values(tensor: Tensor) -> bytes:
    """The tensor's data, from a hash of the seed and its name."""
    count = prod(tensor.shape)
    stream = hashlib.shake_128(f"{SEED}/{tensor.name}".encode())
    if tensor.dtype == "F32":
        draws = struct.unpack(f"<{count}H", stream.digest(2 * count))
        scaled = (tensor.center + tensor.spread * (draw / 32767.5 - 1.0) for draw in draws)
        return struct.pack(f"<{count}f", *scaled)
    drawn = stream.digest(4 * count)
    # Four uniform bytes sum to 510 on average, with a variance of 4 (256^2 - 1) / 12.
    deviation = ((BYTES**2 - 1) / 3) ** 0.5
    table = [bf16(tensor.center + tensor.spread * (i - 510) / deviation) for i in range(1021)]
    sums = map(sum, zip(drawn[0::4], drawn[1::4], drawn[2::4], drawn[3::4], strict=True))
    return b"".join([table[total] for total in sums])


def bf16(value: float) -> bytes:
    """The nearest bf16, to even on ties."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def tokens() -> list[str]:
    """Special tokens by id from 256 on; the rest of the vocabulary is reserved."""
    return [*SPECIAL, *(f"<|reserved_{i}|>" for i in range(VOCAB - BYTES - len(SPECIAL)))]


def tokenizer() -> dict[str, Any]:
    """Byte-level and without merges: a byte's id is its value."""
    byte_level = {
        "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False,
    }  # fmt: skip
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": BYTES + i, "content": token, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False, "special": True,
            }
            for i, token in enumerate(tokens())
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {letter: byte for byte, letter in enumerate(alphabet())},
            "merges": [],
        },
    }  # fmt: skip


def alphabet() -> list[str]:
    """The letter that stands for each byte in byte-level tokenizers since GPT-2: printable bytes
    of Latin-1 for themselves, the others in order from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(BYTES) if byte not in printable]
    return [chr(b) if b in printable else chr(BYTES + others.index(b)) for b in range(BYTES)]


def tokenizer_config() -> dict[str, Any]:
    """Special tokens and a small chat template."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|begin|>",
        "eos_token": "<|end|>",
        "pad_token": "<|pad|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": config()["max_position_embeddings"],
        "chat_template": "{{ bos_token }}"
        "{% for message in messages %}"
        "{{ '<|' + message['role'] + '|>' + message['content'] + eos_token }}"
        "{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}",
    }


if __name__ == "__main__":
    if len(sys.argv) > 2:
        raise SystemExit("usage: python tools/make_demo.py [FOLDER]")
    main(Path(sys.argv[1]) if len(sys.argv) == 2 else TARGET)
