"""One known model: its spec and facts, and the Model they give."""

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
from day0.models import ModelSpec, spec_data

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
    """ "org/Name" -> "org--name"."""
    return hub_id.lower().replace("/", "--")


def entry_called(name: str) -> CatalogEntry:
    """The entry; Day0Error with the nearest names otherwise."""
    path = FOLDER / f"{name}.json"
    if "/" in name or not path.is_file():
        raise _unknown(name)
    return load(json.loads(path.read_text(encoding="utf-8")))


def _unknown(name: str) -> Day0Error:
    """With the names that hold this one or look like it; with all of them where none does."""
    known = names()
    word = entry_name(name)
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.4)
    holding = [other for other in known if word and word in other and other not in close]
    near = [*close, *holding[: max(0, 6 - len(close))]]
    listed = f"near: {', '.join(near)}" if near else f"which are {', '.join(known)}"
    return Day0Error(
        f"the catalog has no {name!r}; it has {len(known)} models, {listed}",
        hint=f"day0 analyze catalog:{(near or known)[0]}" if known else "make catalog",
    )


def load(data: Mapping[str, Any]) -> CatalogEntry:
    """An entry from its JSON data."""
    if data.get("schema") != SCHEMA:
        raise Day0Error(
            f"catalog entry of schema {data.get('schema')!r}; this day0 reads {SCHEMA}",
            hint="make catalog writes the entries again",
        )
    return CatalogEntry(
        name=data["name"],
        id=data["id"],
        revision=data["revision"],
        spec=spec_data.load(data),
        facts=tuple(
            Fact(path=path, value=decode(value, {}), how=how, source=source, decisive=decisive)
            for path, value, how, source, decisive in data["facts"]
        ),
        unread_keys=tuple(data["unread_keys"]),
    )


def dump(entry: CatalogEntry) -> dict[str, Any]:
    """JSON data of an entry."""
    return {
        "schema": SCHEMA,
        "name": entry.name,
        "id": entry.id,
        "revision": entry.revision,
        **spec_data.dump(entry.spec),
        "facts": [
            [fact.path, encode(fact.value), fact.how, fact.source, fact.decisive]
            for fact in entry.facts
        ],
        "unread_keys": list(entry.unread_keys),
    }


def model_of(entry: CatalogEntry, stated: Mapping[str, Any]) -> Model:
    """The Model of an entry, which has no tensors to compare with."""
    if stated:
        raise Day0Error(
            f"--facts cannot change catalog:{entry.name}, whose facts are already read",
            hint=f"day0 analyze {entry.id} --facts FILE",
        )
    model = spec_data.model_of(entry.spec)
    return replace(model, facts={fact.path: fact for fact in entry.facts})
