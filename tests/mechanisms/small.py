"""Small configs and headers made up for a test."""

from typing import Any

from day0.checkpoint.headers import Headers, TensorHeader


def llama(**words: Any) -> dict[str, Any]:
    """A small config of the llama type."""
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 12,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 20,
        "vocab_size": 30,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "rope_theta": 10000.0,
        **words,
    }


def made_up(shapes: dict[str, tuple[int, ...]]) -> Headers:
    """Headers of F32 tensors with these shapes."""
    tensors: dict[str, TensorHeader] = {}
    position = 0
    for name, shape in shapes.items():
        stop = position + 4 * size(shape)
        tensors[name] = TensorHeader("F32", shape, position, stop, "model.safetensors")
        position = stop
    return Headers(tensors=tensors, shards=("model.safetensors",))


def size(dims: tuple[int, ...]) -> int:
    """Elements of a tensor."""
    total = 1
    for dim in dims:
        total *= dim
    return total
