"""Checkpoints changed on purpose: rewrites headers and configs, with zeros for data."""

import json
import math
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

BYTES = {"F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "F8_E8M0": 1, "U8": 1, "I8": 1, "I32": 4,
         "I64": 8}  # fmt: skip
Tensors = dict[str, tuple[str, list[int]]]


def tensors(folder: Path) -> Tensors:
    """name -> (dtype, shape) of model.safetensors."""
    raw = (folder / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"]) for name, entry in header.items()}


def write(folder: Path, found: Tensors) -> None:
    """Write model.safetensors with these tensors and a hole for data."""
    header, at = {}, 0
    for name, (dtype, shape) in found.items():
        size = BYTES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)


def copy(source: Path, target: Path) -> Path:
    """A copy that may be changed."""
    shutil.copytree(source, target)
    return target


def change_tensors(folder: Path, change: Callable[[Tensors], Tensors | None]) -> None:
    """Rewrite the file with what `change` makes of its tensors (in place where it returns None)."""
    found = tensors(folder)
    write(folder, change(found) or found)


def config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text())


def change_config(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Rewrite config.json after `change` worked on it in place."""
    data = config(folder)
    change(data)
    (folder / "config.json").write_text(json.dumps(data))


def quantise_experts(folder: Path, block: int = 128) -> list[str]:
    """Store all expert matrices as FP8 with one scale a block, as DeepSeek-V3 does; their names."""
    names: list[str] = []

    def change(found: Tensors) -> Tensors:
        made: Tensors = {}
        for name, (dtype, shape) in found.items():
            if ".experts." in name and name.endswith(".weight") and len(shape) == 2:
                made[name] = ("F8_E4M3", shape)
                scale = [math.ceil(dim / block) for dim in shape]
                made[f"{name}_scale_inv"] = ("F32", scale)
                names.append(name)
            else:
                made[name] = (dtype, shape)
        return made

    change_tensors(folder, change)
    change_config(
        folder,
        lambda data: data.update(
            quantization_config={
                "quant_method": "fp8",
                "fmt": "e4m3",
                "activation_scheme": "dynamic",
                "weight_block_size": [block, block],
                "modules_to_not_convert": ["lm_head"],
            }
        ),
    )
    return names
