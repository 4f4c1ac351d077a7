"""--quant NAME or FILE.yaml -> Recipe. The one place that reads either.

A file maps roles to how they run, for example

    base: fp8
    index_quant: {dtype: mxfp8, granularity: per-group, group_size: 32, mode: dynamic}
    kv_quant: {dtype: fp8, granularity: per-token-head-tile, tile: 128}
    attention_proj: {dtype: bf16}

`base` is the built-in recipe that the entries change (bf16 unless stated); `plain` is the format of
all that no entry names. `index_quant` holds for the cached index keys and for the index queries.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from day0.errors import Day0Error
from day0.ir.recipe import KEPT, RECIPES, STORED, Recipe

FLOATS = ("fp32", "bf16", "fp16")
# Names in a file -> names in a Recipe, for caches that may be narrowed.
CACHES = {"kv_quant": "kv", "index_quant": "index"}
NARROW = ("experts", "shared_expert", "dense", "attention_proj", "index_q", "index_k", "head",
          "embedding")  # fmt: skip
HIGH = (*KEPT, "recurrent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Granularity:
    """What one scale covers. `key` is the entry's word for its size ("" when it has none), `sizes`
    the sizes allowed, the usual one first; `name` the format, with a place for the size."""

    name: str
    key: str = ""
    sizes: tuple[int, ...] = ()


Choices = Mapping[str, Granularity]
_MX = {"per-group": Granularity(name="mxfp8", key="group_size", sizes=(32,))}
WEIGHTS: Mapping[str, Choices] = {
    **dict.fromkeys((*FLOATS, STORED), {}),
    "fp8": {
        "per-block": Granularity(name="fp8_b{}", key="block", sizes=(128, 32, 64, 256)),
        "per-channel": Granularity(name="fp8_channel"),
        "per-tensor": Granularity(name="fp8_tensor"),
    },
    "mxfp8": _MX,
}
ENTRIES: Mapping[str, Choices] = {
    **dict.fromkeys(FLOATS, {}),
    "fp8": {
        "per-token-head-tile": Granularity(name="fp8_t{}", key="tile", sizes=(128, 16, 32, 64, 256))
    },
    "mxfp8": _MX,
}
PLAIN: Mapping[str, Choices] = dict.fromkeys(FLOATS, {})
# The dtypes of each role, and their granularities, the usual one first.
TABLES: Mapping[str, Mapping[str, Choices]] = {
    **dict.fromkeys(CACHES, ENTRIES),
    **dict.fromkeys(NARROW, WEIGHTS),
    **dict.fromkeys(HIGH, PLAIN),
}
_HINT = "a file looks like: 'kv_quant: {dtype: fp8, granularity: per-token-head-tile, tile: 128}'"


class _Loader(yaml.SafeLoader):
    """YAML in which a key stated twice is an error, not the last one's."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value} is stated twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def recipe_called(text: str) -> Recipe:
    """The built-in recipe or the one in a YAML file; Day0Error with what is allowed otherwise."""
    if text in RECIPES:
        return RECIPES[text]
    if not text.endswith((".yaml", ".yml")):
        raise Day0Error(
            f"--quant is {text!r}; it must be one of {', '.join(RECIPES)}, or a FILE.yaml",
            hint="write --quant fp8, for example",
        )
    return recipe_of(_read(text), name=Path(text).stem, where=f"--quant {text}")


def recipe_of(data: object, *, name: str, where: str) -> Recipe:
    """The Recipe that parsed YAML states; `where` stands before what is wrong with it."""
    if not isinstance(data, Mapping):
        raise _refused(where, "holds", data, "a mapping from roles to entries")
    base = data.get("base", "bf16")
    if not isinstance(base, str) or base not in RECIPES:
        raise _refused(where, "base is", base, ", ".join(RECIPES))
    plain = data.get("plain", RECIPES[base].plain)
    if plain not in FLOATS:
        raise _refused(where, "plain is", plain, ", ".join(FLOATS))
    wanted = dict(RECIPES[base].formats)
    for role, entry in data.items():
        if role in ("base", "plain"):
            continue
        if role not in TABLES:
            raise _refused(where, "has the role", role, ", ".join(("base", "plain", *TABLES)))
        wanted[str(CACHES.get(role, role))] = _format(TABLES[role], entry, f"{where}: {role}")
    return Recipe(name=name, plain=plain, formats=wanted)


def _format(table: Mapping[str, Choices], entry: object, where: str) -> str:
    """The format that one entry names."""
    if not isinstance(entry, Mapping):
        raise _refused(where, "is", entry, "a mapping such as {dtype: bf16}")
    dtype = entry.get("dtype")
    if not isinstance(dtype, str) or dtype not in table:
        raise _refused(where, "dtype is", dtype, ", ".join(table))
    choices = table[dtype]
    if not choices:
        _only(entry, ("dtype",), f"{where}, dtype {dtype}")
        return dtype
    granularity = entry.get("granularity", next(iter(choices)))
    if not isinstance(granularity, str) or granularity not in choices:
        raise _refused(f"{where}, dtype {dtype}", "granularity is", granularity, ", ".join(choices))
    chosen = choices[granularity]
    keys = ("dtype", "granularity", "mode", *((chosen.key,) if chosen.key else ()))
    _only(entry, keys, f"{where}, granularity {granularity}")
    mode = entry.get("mode", "dynamic")
    if mode != "dynamic":
        raise _refused(where, "mode is", mode, "dynamic (static scales need a calibration)")
    if not chosen.key:
        return chosen.name
    size = entry.get(chosen.key, chosen.sizes[0])
    if isinstance(size, list) and len(size) == 2 and size[0] == size[1]:
        size = size[0]  # a block may be spelled [128, 128]
    if type(size) is not int or size not in chosen.sizes:
        raise _refused(where, f"{chosen.key} is", size, ", ".join(map(str, sorted(chosen.sizes))))
    return chosen.name.format(size)


def _only(entry: Mapping[Any, Any], keys: tuple[str, ...], where: str) -> None:
    for key in entry:
        if key not in keys:
            raise _refused(where, "has the key", key, ", ".join(keys))


def _read(text: str) -> object:
    try:
        return yaml.load(Path(text).expanduser().read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise Day0Error(
            f"--quant {text} cannot be read: {error.strerror or error}; "
            f"a readable YAML file or one of {', '.join(RECIPES)} is expected",
            hint=_HINT,
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Day0Error(
            f"--quant {text} is not YAML: {' '.join(str(error).split())}", hint=_HINT
        ) from error


def _refused(where: str, what: str, value: object, allowed: str) -> Day0Error:
    return Day0Error(f"{where} {what} {value!r}; allowed: {allowed}", hint=_HINT)
