"""One build per type and run, shared by all test processes of the run."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.tiny.shared import build_once

from . import checkpoints

TOKENS = 40  # beyond every window and top-k of the tiny checkpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A tiny checkpoint and what its oracle says: `elements` it stores, per layer whether it has
    experts (`sparse`), and elements by kind of cache after TOKENS tokens (`caches`)."""

    type_name: str
    folder: Path
    elements: int
    sparse: tuple[bool, ...]
    caches: tuple[dict[str, Any], ...]


@pytest.fixture(scope="session")
def breadth_base(tmp_path_factory: pytest.TempPathFactory, run_seed: int) -> Path:
    """The folder below which every process of the run finds the checkpoints."""
    base = tmp_path_factory.getbasetemp()
    if base.name.startswith("popen-"):
        base = base.parent
    return base / f"breadth-{run_seed}"


@pytest.fixture(scope="session")
def made(breadth_base: Path, run_seed: int) -> Callable[[str], Made]:
    """made(type_name): the checkpoint of a type, built by whoever asks first. Do not change it."""

    def build(type_name: str) -> Made:
        folder = breadth_base / type_name
        facts = build_once(folder, lambda: _built(type_name, folder, run_seed))
        return Made(
            type_name=type_name,
            folder=folder,
            elements=facts["elements"],
            sparse=tuple(facts["sparse"]),
            caches=tuple(facts["caches"]),
        )

    return build


def _built(type_name: str, folder: Path, seed: int) -> dict[str, Any]:
    import torch

    module = checkpoints.build(type_name, folder, seed=seed)
    saved = module.state_dict()
    parameters = {id(value): value.numel() for value in module.parameters()}
    buffers = sum(v.numel() for name, v in module.named_buffers() if name in saved)
    config = module.config.get_text_config(decoder=True)
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, config.vocab_size, (1, TOKENS), generator=generator)
    with torch.no_grad():
        output = module(input_ids=ids, use_cache=True)
    return {
        "elements": sum(parameters.values()) + buffers,
        "sparse": _sparse(saved, config.num_hidden_layers),
        "caches": _caches(output),
    }


def _sparse(saved: Any, num_layers: int) -> list[bool]:
    """Layers of the decoder with routed experts, by the names of the oracle's own modules."""
    found = set()
    for name in saved:
        match = re.search(r"(?:layers|h|blocks)\.(\d+)\..*experts", name)
        if match and "vision" not in name and "audio" not in name:
            found.add(int(match[1]))
    return [index in found for index in range(num_layers)]


def _caches(output: Any) -> list[dict[str, Any]]:
    """Per layer: elements of keys and values, whether they are those of a window, and others."""
    cache = getattr(output, "cache", None)
    cache = getattr(output, "past_key_values", None) if cache is None else cache
    found = []
    for layer in getattr(cache, "layers", ()):
        kv = sum(
            getattr(layer, name).numel()
            for name in ("keys", "values")
            if getattr(layer, name, None) is not None
        )
        sliding = getattr(layer, "sliding_window", None)
        found.append({"kv": kv, "sliding": sliding or 0, "kind": type(layer).__name__})
    return found
