"""One known model: its spec and facts, and the Model they give."""

import dataclasses
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from day0.errors import Day0Error
from day0.ir.codec import decode, encode
from day0.ir.fact import Fact
from day0.ir.graph import Model
from day0.mechanisms import spec as specs
from day0.mechanisms.index import MECHANISMS, RESIDUAL
from day0.mechanisms.names import Names
from day0.mechanisms.spec import ModelSpec
from day0.models.build import build
from day0.models.places import DEFAULT
from day0.models.stored import alternatives, recognise

SCHEMA = "day0.catalog/1"
FOLDER = Path(__file__).parent / "entries"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """`name` is the hub name in lower case with "/" as "--"."""

    name: str
    id: str
    revision: str
    spec: ModelSpec
    facts: tuple[Fact, ...]
    unread_keys: tuple[str, ...] = ()


def names() -> tuple[str, ...]:
    """All entries, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def entry_name(hub_id: str) -> str:
    """"org/Name" -> "org--name"."""
    return hub_id.lower().replace("/", "--")


def entry_called(name: str) -> CatalogEntry:
    """The entry; Day0Error with the nearest names otherwise."""
    path = FOLDER / f"{name}.json"
    if "/" in name or not path.is_file():
        near = difflib.get_close_matches(name, names(), n=3, cutoff=0.4) or names()[:3]
        raise Day0Error(
            f"the catalog has no {name!r}; it has {len(names())} models, near: {', '.join(near)}",
            hint=f"day0 analyze catalog:{near[0]}" if near else "make catalog",
        )
    return load(json.loads(path.read_text(encoding="utf-8")))


def load(data: Mapping[str, Any]) -> CatalogEntry:
    """An entry from its JSON data."""
    if data.get("schema") != SCHEMA:
        raise Day0Error(
            f"catalog entry of schema {data.get('schema')!r}; this day0 reads {SCHEMA}",
            hint="make catalog writes the entries again",
        )
    types = _types()
    kinds = [decode(kind, types) for kind in data["layers"]["kinds"]]
    layers = tuple(kinds[number] for number, times in data["layers"]["runs"] for _ in range(times))
    return CatalogEntry(
        name=data["name"],
        id=data["id"],
        revision=data["revision"],
        spec=replace(decode(data["spec"], types), layers=layers),
        facts=tuple(
            Fact(path=path, value=decode(value, {}), how=how, source=source, decisive=decisive)
            for path, value, how, source, decisive in data["facts"]
        ),
        unread_keys=tuple(data["unread_keys"]),
    )


def dump(entry: CatalogEntry) -> dict[str, Any]:
    """JSON data of an entry; equal layers are written once, with runs of their numbers."""
    kinds: list[specs.LayerSpec] = []
    runs: list[list[int]] = []
    for layer in entry.spec.layers:
        if layer not in kinds:
            kinds.append(layer)
        number = kinds.index(layer)
        if runs and runs[-1][0] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return {
        "schema": SCHEMA,
        "name": entry.name,
        "id": entry.id,
        "revision": entry.revision,
        "spec": encode(replace(entry.spec, layers=())),
        "layers": {"kinds": encode(kinds), "runs": runs},
        "facts": [
            [fact.path, encode(fact.value), fact.how, fact.source, fact.decisive]
            for fact in entry.facts
        ],
        "unread_keys": list(entry.unread_keys),
    }


def model_of(entry: CatalogEntry, stated: Mapping[str, Any]) -> Model:
    """The Model of an entry; its tensors have plain names and no stored forms."""
    if stated:
        raise Day0Error(
            f"--facts cannot change catalog:{entry.name}, whose facts are already read",
            hint=f"day0 analyze {entry.id} --facts FILE",
        )
    plain = Names(
        {},
        recognise=lambda name, dims: recognise(name, dims, {}, None, dtype=entry.spec.dtype),
        forms=alternatives,
    )
    model = build(entry.spec, plain, DEFAULT)
    return replace(model, facts={fact.path: fact for fact in entry.facts})


def _types() -> dict[str, type]:
    """All dataclasses that a spec may hold, by class name."""
    found: dict[str, type] = {}
    pending: list[type] = [
        specs.ModelSpec, specs.LayerSpec, specs.Sublayer, specs.Part, specs.Shape,
        *(mechanism.spec for mechanism in MECHANISMS.values()),
        *(residual.spec for residual in RESIDUAL.values()),
    ]  # fmt: skip
    while pending:
        kind = pending.pop()
        if found.get(kind.__name__) is kind:
            continue
        if kind.__name__ in found:
            raise AssertionError(f"two spec classes are called {kind.__name__}")
        found[kind.__name__] = kind
        module = __import__(kind.__module__, fromlist=["_"])
        pending.extend(
            other
            for other in vars(module).values()
            if isinstance(other, type)
            and dataclasses.is_dataclass(other)
            and other.__module__.startswith("day0.mechanisms.")
            and other.__name__ not in found
        )
    return found
