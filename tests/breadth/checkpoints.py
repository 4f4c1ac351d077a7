"""Tiny checkpoints of any type: the class's own defaults, with every size replaced by a small one.

What a class decides by default (biases, layer patterns, tied heads, norms) stays as published;
`sizes.OWN` holds what single types need beside. Weights are random (tests.tiny.weights).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from tests import tiny
from tests.tiny.checkpoint import EAGER, classes_of
from tests.tiny.draw import draw_config
from tests.tiny.weights import randomise

from . import sizes

TYPES = tuple(
    line
    for line in (Path(__file__).parent / "types.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)


def config_of(type_name: str) -> Any:
    """The type's config with small sizes."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = CONFIG_MAPPING[type_name]
    fields = {field.name for field in dataclasses.fields(kind)}
    words = {key: value for key, value in sizes.COMMON.items() if key in fields}
    if "qk_rope_head_dim" in fields:
        words.pop("head_dim", None)  # latent attention has its own
        words["num_key_value_heads"] = words["num_attention_heads"]
    own = sizes.OWN.get(type_name, {})
    return kind(**{**words, **own})


def class_of(type_name: str) -> Any:
    """The class with a head, else the bare decoder."""
    import transformers
    from transformers.models.auto import modeling_auto as auto

    name = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(type_name)
    if name is None:
        name = sizes.CLASSES.get(type_name) or auto.MODEL_MAPPING_NAMES[type_name]
    return getattr(transformers, name)


def mission_type(type_name: str) -> str | None:
    """The name under which tests.tiny draws this type, where it does and nothing is said here."""
    if type_name in sizes.OWN:
        return None
    stems = (type_name, type_name.removesuffix("_text"), sizes.SAME.get(type_name))
    return next((stem for stem in stems if stem in tiny.TYPES), None)


def build(type_name: str, folder: Path, *, seed: int = 0) -> Any:
    """Write config.json and model.safetensors; returns the module they were saved from."""
    if mission_type(type_name) is not None:
        return _drawn(type_name, folder, seed)
    module = class_of(type_name)._from_config(config_of(type_name), **EAGER).eval()
    randomise(module, seed)
    calm(module, sizes.CALM.get(type_name, ()))
    module.save_pretrained(folder)
    return module


def calm(module: Any, names: tuple[str, ...]) -> None:
    """A quarter of the weights of these modules: scores without a scale of their own are as large
    as heads are wide, and a softmax of such numbers blows rounding up."""
    import torch

    with torch.no_grad():
        for name, value in module.named_parameters():
            if name.split(".")[-2] in names:
                value.mul_(0.25)


def _drawn(type_name: str, folder: Path, seed: int) -> Any:
    """The type as tests.tiny draws it."""
    stem = mission_type(type_name)
    assert stem is not None
    entry = tiny.TYPES[stem]
    config_class, model_class = classes_of(entry)
    words = draw_config(entry.describe, stem, seed)
    module = model_class._from_config(config_class(**words), **EAGER).eval()
    randomise(module, seed)
    module.save_pretrained(folder)
    return module
