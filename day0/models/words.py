"""Which of our own tables apply to a config, and which dict in it is the decoder's."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from day0.errors import Day0Error
from day0.mechanisms.config import ConfigReader, flatten
from day0.models.known import blocks, decoders, hyper, latent, softmax, unstored

KNOWN = (
    *unstored.KNOWN,
    *decoders.KNOWN,
    *latent.KNOWN,
    *softmax.KNOWN,
    *hyper.KNOWN,
    *blocks.KNOWN,
)
_NESTED = ("decoder", "generator", "text_config", "llm_config", "language_config")


def decoder_config(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """(the decoder's dict, its path in config.json with a trailing dot, or "")."""
    if "thinker_config" in config:
        inner, path = decoder_config(config["thinker_config"])
        return inner, f"thinker_config.{path}"
    for key in _NESTED:
        if isinstance(config.get(key), Mapping):
            return config[key], f"{key}."
    return config, ""


def types_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """model_type words: the decoder's own first, then the parent's."""
    inner, _ = decoder_config(config)
    found = [inner.get("model_type"), config.get("model_type")]
    return tuple(dict.fromkeys(word for word in found if isinstance(word, str)))


def known_facts(config: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """Fact path -> (value, source), from every entry whose words are present."""
    inner, _ = decoder_config(config)
    present = set(flatten(inner)) | set(inner)
    present = {key for key in present if _given(inner, key)}
    types = set(types_of(config))
    table: dict[str, tuple[Any, str]] = {}
    for entry in KNOWN:
        if _matches(entry, types, present):
            for path, value in entry["facts"].items():
                table.setdefault(path, (value, entry["source"]))
    return table


def reader(config: Mapping[str, Any], stated: Mapping[str, Any] | None = None) -> ConfigReader:
    """The decoder's ConfigReader with the tables that apply. Day0Error for an empty config."""
    inner, inside = decoder_config(config)
    if not inner:
        raise Day0Error(
            "config.json holds no keys; a decoder's sizes are needed",
            hint="day0 analyze FOLDER, where FOLDER/config.json is the model's own",
        )
    types = types_of(config)
    defaults, owner = class_defaults(types)
    return ConfigReader(
        inner,
        top=config,
        inside=inside,
        known=known_facts(config),
        defaults=defaults,
        defaults_of=owner,
        stated=stated,
    )


def class_defaults(types: tuple[str, ...]) -> tuple[Mapping[str, Any], str]:
    """Published class defaults of the first model_type that has some, and its name."""
    table = _defaults()
    for word in types:
        for name in (word, f"{word}_text"):
            if name in table:
                return table[name], name
    return {}, ""


@cache
def _defaults() -> Mapping[str, Mapping[str, Any]]:
    path = Path(__file__).parent / "known" / "class_defaults.json"
    return json.loads(path.read_text(encoding="utf-8"))["defaults"]


def _given(config: Mapping[str, Any], key: str) -> bool:
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value is not None


def _matches(entry: Mapping[str, Any], types: set[str], present: set[str]) -> bool:
    if "types" in entry and types.isdisjoint(entry["types"]):
        return False
    if not present.issuperset(entry.get("words", ())):
        return False
    return present.isdisjoint(entry.get("without", ()))


def describe(table: Mapping[str, tuple[Any, str]]) -> Iterator[str]:
    """One line per known fact, for reports."""
    for path, (value, source) in sorted(table.items()):
        yield f"{path} = {value!r} ({source})"
