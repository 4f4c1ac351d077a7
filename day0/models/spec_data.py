"""ModelSpec <-> plain JSON data, and the Model a spec gives without any checkpoint."""

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from day0 import mechanisms
from day0.ir.codec import decode, encode
from day0.ir.graph import Model
from day0.mechanisms.names import Names
from day0.mechanisms.spec import LayerSpec, ModelSpec
from day0.models.build import build
from day0.models.places import DEFAULT
from day0.models.stored import alternatives, recognise


def dump(spec: ModelSpec) -> dict[str, Any]:
    """{"spec": ..., "layers": ...}: equal layers are written once, with runs of their numbers."""
    kinds: list[LayerSpec] = []
    runs: list[list[int]] = []
    for layer in spec.layers:
        if layer not in kinds:
            kinds.append(layer)
        number = kinds.index(layer)
        if runs and runs[-1][0] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return {
        "spec": encode(replace(spec, layers=())),
        "layers": {"kinds": encode(kinds), "runs": runs},
    }


def load(data: Mapping[str, Any]) -> ModelSpec:
    """The inverse of dump. ValueError names what is unknown."""
    types = _types()
    kinds = [decode(kind, types) for kind in data["layers"]["kinds"]]
    layers = tuple(kinds[number] for number, times in data["layers"]["runs"] for _ in range(times))
    return replace(decode(data["spec"], types), layers=layers)


def model_of(spec: ModelSpec) -> Model:
    """The Model of a spec; its tensors have plain names and no stored forms."""
    plain = Names(
        {},
        recognise=lambda name, dims: recognise(name, dims, {}, None, dtype=spec.dtype),
        forms=alternatives,
    )
    return build(spec, plain, DEFAULT)


@cache
def _types() -> dict[str, type]:
    """All dataclasses of the mechanisms room by class name."""
    found: dict[str, type] = {}
    for module in iter_modules(mechanisms.__path__):
        for kind in vars(import_module(f"day0.mechanisms.{module.name}")).values():
            if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
                continue
            if found.setdefault(kind.__name__, kind) is not kind:
                raise AssertionError(f"two classes of mechanisms are called {kind.__name__}")
    return found
