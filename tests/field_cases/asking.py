"""Checkpoints of the field cases, built in memory, and their analyses."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from day0.analysis.analyze import Analysis, of_checkpoint
from day0.checkpoint.headers import DTYPE_BITS, Headers, TensorHeader
from day0.checkpoint.source import Checkpoint
from day0.ir.recipe import RECIPES
from day0.ir.weight import leaves

Tensors = dict[str, tuple[str, tuple[int, ...]]]


def analysis(
    config: Mapping[str, Any],
    tensors: Tensors | None = None,
    *,
    quant: str = "bf16",
    sidecar: Mapping[str, Any] | None = None,
) -> Analysis:
    """Of a config and, where they are given, of tensors (name -> dtype, shape)."""
    return of_checkpoint(
        Checkpoint(
            id="made up",
            revision="",
            origin="folder",
            config=config,
            headers=None if tensors is None else headers(tensors),
            quant_sidecar=sidecar,
        ),
        recipe=RECIPES[quant],
    )


def headers(tensors: Tensors) -> Headers:
    """Headers of one file with these tensors, one after the other."""
    found: dict[str, TensorHeader] = {}
    at = 0
    for name, (dtype, shape) in tensors.items():
        stop = at + math.prod(shape) * DTYPE_BITS[dtype] // 8
        found[name] = TensorHeader(dtype, shape, at, stop, "model.safetensors")
        at = stop
    return Headers(tensors=found, shards=("model.safetensors",))


def wanted(config: Mapping[str, Any], dtype: str = "BF16") -> Tensors:
    """The tensors that a plain model of this config has, under the names written first."""
    tensors: Tensors = {}
    for weight in analysis(config).model.weights.values():
        for leaf, count in leaves(weight.source):
            for expert in range(max(count, 1)):
                tensors[leaf.name.format(e=expert)] = (dtype, tuple(leaf.dims))
    return tensors


def corpus_config(corpus: Path, name: str) -> dict[str, Any]:
    return json.loads((corpus / "configs" / f"{name}.json").read_text(encoding="utf-8"))


def warnings(found: Analysis) -> list[str]:
    """Codes of findings that --strict looks at."""
    return [item.code for item in found.findings if item.severity != "info"]


def small(**words: Any) -> dict[str, Any]:
    """A small config of the llama type."""
    return {
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 40,
        "vocab_size": 30,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "rope_theta": 10000.0,
        **words,
    }
