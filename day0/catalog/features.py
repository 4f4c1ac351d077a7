"""A spec as flat features, which two models are compared by: no names, and no graph is built.

A feature is a path ("mla.indexer.pool") with the values that it has in the layers and in how many
of them: {"4": 11}. Values are JSON texts. The features of all entries stand in one generated file.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from day0.errors import Day0Error
from day0.ir.codec import encode
from day0.models import LayerSpec, ModelSpec

SCHEMA = "day0.catalog.features/1"
INDEX = Path(__file__).with_name("features.json")
_SLOTS = ("mixer", "ffn")
# Spellings and places of tensors, and what an unknown part holds.
_NAMES = ("names", "site", "shards", "modules", "because")

# path -> value as a JSON text -> number of layers (1 for what stands once in a model)
Features = Mapping[str, Mapping[str, int]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One entry of the catalog as it is compared: its name, hub id and features."""

    name: str
    id: str
    features: Features


def features(spec: ModelSpec) -> Features:
    """Features of a model. `mixer`, `ffn`, `residual`: which mechanisms, in how many layers;
    `order`: runs of layers alike in both."""
    found: dict[str, dict[str, int]] = {}

    def add(path: str, value: Any, times: int = 1) -> None:
        text = json.dumps(encode(value), separators=(",", ":"))
        of = found.setdefault(path, {})
        of[text] = of.get(text, 0) + times

    kinds: list[LayerSpec] = []
    order = []
    for layer in spec.layers:
        if layer not in kinds:
            kinds.append(layer)
        order.append(kinds.index(layer))
    for number, kind in enumerate(kinds):
        for path, value in _layer(kind):
            add(path, value, order.count(number))
    words = ["+".join(value for path, value in _layer(kind) if path in _SLOTS) for kind in kinds]
    add("order", [[word, len(list(run))] for word, run in groupby(words[at] for at in order)])
    for path, value in _model(spec):
        add(path, value)
    return {path: dict(sorted(values.items())) for path, values in sorted(found.items())}


def _model(spec: ModelSpec) -> Iterator[tuple[str, Any]]:
    for field in ("context_length", "vocab_size", "tied", "head_size", "embedding_scale",
                  "logit_scale", "softcap", "dtype"):  # fmt: skip
        yield field, getattr(spec, field)
    yield from _fields("", spec.shape)
    yield "residual", spec.residual.stem
    yield from _fields(spec.residual.stem, spec.residual.spec)
    if spec.norm is not None:
        yield from _fields("norm", spec.norm.spec)
    yield "drafts", len(spec.drafts)
    for draft in spec.drafts:
        for path, value in _fields("mtp", draft.spec):
            if not path.startswith(("mtp.layer.", "mtp.residual.")):
                yield path, value
        for path, value in _layer(draft.spec.layer):
            if path in _SLOTS:
                yield f"mtp.{path}", value


def _layer(layer: LayerSpec) -> Iterator[tuple[str, Any]]:
    for sublayer in layer.sublayers:
        slot = "ffn" if sublayer.name.startswith("ffn") else "mixer"
        for branch in sublayer.branches:
            yield "ffn" if branch.slot == "ffn" else slot, branch.stem
            yield from _fields(branch.stem, branch.spec)
            if branch.multiplier != 1.0:
                yield f"{branch.stem}.multiplier", branch.multiplier
        yield from _fields(sublayer.residual.stem, sublayer.residual.spec)
        for side, norm in (("before", sublayer.norm_in), ("after", sublayer.norm_out)):
            yield f"norm.{side}.{slot}", norm is not None
            if norm is not None:
                yield from _fields("norm", norm.spec)


def _fields(path: str, spec: Any) -> Iterator[tuple[str, Any]]:
    """Fields of a record and of the records below it; those that may be absent say which."""
    for field in dataclasses.fields(spec):
        if field.name in _NAMES:
            continue
        value = getattr(spec, field.name)
        name = f"{path}.{field.name}" if path else field.name
        if dataclasses.is_dataclass(value):
            yield name, True
            yield from _fields(name, value)
        else:
            yield name, value


def dump(models: Mapping[str, tuple[str, Features]]) -> str:
    """The file of the features of all entries (name -> hub id, features)."""
    rows = [
        json.dumps({"name": name, "id": hub_id, "features": found}, separators=(",", ":"))
        for name, (hub_id, found) in sorted(models.items())
    ]
    return f'{{"schema":"{SCHEMA}","models":[\n' + ",\n".join(rows) + "\n]}\n"


@cache
def known() -> tuple[Known, ...]:
    """All entries; Day0Error where the file is not one of this version."""
    data = json.loads(INDEX.read_text(encoding="utf-8"))
    if data.get("schema") != SCHEMA:
        raise Day0Error(
            f"{INDEX.name} is of schema {data.get('schema')!r}; this day0 reads {SCHEMA}",
            hint="make catalog writes it again",
        )
    return tuple(
        Known(name=row["name"], id=row["id"], features=row["features"]) for row in data["models"]
    )
