"""Frozen dataclasses <-> plain JSON data, by class name; fields at their default are left out."""

import dataclasses
from collections.abc import Mapping
from typing import Any

TYPE = "type"


def encode(value: Any) -> Any:
    """Dataclasses become {"type": class name, field: ...}, tuples become lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        data = {TYPE: type(value).__name__}
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            if field.default is dataclasses.MISSING or item != field.default:
                data[field.name] = encode(item)
        return data
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return value


def decode(data: Any, types: Mapping[str, type]) -> Any:
    """The inverse; lists become tuples. ValueError names an unknown type or field."""
    if isinstance(data, list):
        return tuple(decode(item, types) for item in data)
    if not isinstance(data, Mapping):
        return data
    if TYPE not in data:
        return {key: decode(item, types) for key, item in data.items()}
    name = data[TYPE]
    if name not in types:
        raise ValueError(f"unknown type {name!r} (known: {', '.join(sorted(types))})")
    fields = {key: decode(item, types) for key, item in data.items() if key != TYPE}
    try:
        return types[name](**fields)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from error
