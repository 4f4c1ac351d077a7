"""Small checkpoints written by hand: valid safetensors files, and ways to damage them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from day0.checkpoint.headers import DTYPE_BITS

INDEX = "model.safetensors.index.json"
Specs = Mapping[str, tuple[str, Sequence[int]]]


def num_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Stored bytes of a tensor."""
    total = 1
    for dim in shape:
        total *= dim
    return total * DTYPE_BITS[dtype] // 8


def header(specs: Specs) -> dict[str, Any]:
    """The header's JSON as an object, tensors one after the other."""
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, (dtype, shape) in specs.items():
        stop = position + num_bytes(dtype, shape)
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, stop]}
        position = stop
    return table


def pack(table: object, data_bytes: int) -> bytes:
    """A file with this header and that many zero bytes of data."""
    raw = table if isinstance(table, bytes) else json.dumps(table).encode()
    return len(raw).to_bytes(8, "little") + raw + bytes(data_bytes)


def tensor_file(specs: Specs) -> bytes:
    """A valid safetensors file of zeros."""
    return pack(header(specs), sum(num_bytes(*spec) for spec in specs.values()))


ONE = {"embed.weight": ("BF16", [8, 6]), "norm.weight": ("F32", [6])}
FIRST = {"embed.weight": ("BF16", [8, 6]), "layers.0.up": ("F8_E4M3", [4, 6])}
SECOND = {"layers.0.scale": ("F32", [2, 1]), "norm.weight": ("F32", [6])}
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def single_files() -> dict[str, bytes]:
    """A checkpoint in one file."""
    return {
        "config.json": b'{"model_type": "any", "hidden_size": 6}',
        "model.safetensors": tensor_file(ONE),
    }


def sharded_files() -> dict[str, bytes]:
    """A checkpoint in two shards with an index and every companion file."""
    weight_map = dict.fromkeys(FIRST, SHARDS[0]) | dict.fromkeys(SECOND, SHARDS[1])
    total = sum(num_bytes(*spec) for spec in (FIRST | SECOND).values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    return {
        "config.json": b'{"model_type": "any", "hidden_size": 6}',
        "generation_config.json": b'{"eos_token_id": 7}',
        "tokenizer_config.json": b'{"model_max_length": 99}',
        "hf_quant_config.json": b'{"quantization": {"quant_algo": "FP8"}}',
        INDEX: json.dumps(index).encode(),
        SHARDS[0]: tensor_file(FIRST),
        SHARDS[1]: tensor_file(SECOND),
    }


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files, folders in between included."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def with_index(files: Mapping[str, bytes], **changes: str | None) -> dict[str, bytes]:
    """The same files with entries of the index changed (None removes; "__" stands for ".")."""
    index = json.loads(files[INDEX])
    for name, shard in changes.items():
        name = name.replace("__", ".")
        if shard is None:
            del index["weight_map"][name]
        else:
            index["weight_map"][name] = shard
    return {**files, INDEX: json.dumps(index).encode()}
