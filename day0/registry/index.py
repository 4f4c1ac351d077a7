"""All families by name; a file is imported when it is asked for."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from day0.registry.family import Family, Impl, reference

NAMES = (
    "activation",
    "add",
    "add_rmsnorm",
    "all_gather",
    "all_reduce",
    "altup_correct",
    "altup_expand",
    "altup_merge",
    "altup_predict",
    "attn_residual",
    "attn_residual_blocks",
    "attn_residual_merge",
    "cache_write",
    "channel_scale",
    "clamp",
    "combine",
    "compress",
    "concat",
    "differential",
    "dispatch",
    "embedding",
    "experts",
    "gate",
    "gated_rmsnorm",
    "gdn",
    "glu",
    "glu_quant",
    "gqa",
    "hyper_connection",
    "hyper_gate",
    "hyper_write",
    "indexer",
    "kda",
    "kda_step",
    "layernorm",
    "lightning",
    "linear",
    "local_experts",
    "lone",
    "merged_linear",
    "merged_short_conv",
    "mla",
    "moe_route",
    "ngram_embedding",
    "ngram_gate",
    "position_embedding",
    "position_scale",
    "quant",
    "rmsnorm",
    "rmsnorm_quant",
    "rope",
    "share",
    "shared_kv",
    "short_conv",
    "softcap",
    "sparse_gqa",
    "sparse_mla",
    "sparse_threshold",
    "streams",
    "take_rows",
    "unknown",
    "xielu",
)


_added: dict[str, Family] = {}
_references: dict[str, str] = {}
_checklists: list[Path] = []


def family(name: str) -> Family:
    """The family called `name`; KeyError with the known names otherwise."""
    if name in _added:
        return _added[name]
    if name not in NAMES:
        known = ", ".join(dict.fromkeys((*NAMES, *_added)))
        raise KeyError(f"no operator family {name!r} (there are: {known})")
    return _shipped(name)


def exists(name: str) -> bool:
    """Whether there is a family of this name."""
    return name in NAMES or name in _added


def is_added(name: str) -> bool:
    """Whether a plugin brought this family, its definition or a kernel for it."""
    return name in _added


def add_family(added: Family) -> None:
    """A family of a plugin, from now on in this process; ValueError when its name is taken."""
    if exists(added.name):
        raise ValueError(f"the operator family {added.name!r} exists already")
    _added[added.name] = added
    for impl in added.impls:
        if impl.backend == "reference":
            _references[added.name] = impl.entry


def add_reference(name: str, entry: str) -> None:
    """A plugin's definition "module:function" of a family; it wins over the shipped one."""
    others = tuple(impl for impl in family(name).impls if impl.backend != "reference")
    _added[name] = replace(family(name), impls=(reference(entry), *others))
    _references[name] = entry


def add_implementation(name: str, impl: Impl) -> None:
    """A plugin's implementation of a family, asked before those that there are."""
    _added[name] = replace(family(name), impls=(impl, *family(name).impls))


def added_references() -> Mapping[str, str]:
    """Family name -> entry of every definition that a plugin brought."""
    return MappingProxyType(_references)


def add_checklist(path: Path) -> None:
    """A plugin's checklist file, in the form of checklists/ops/."""
    if path not in _checklists:
        _checklists.append(path)


def added_checklists() -> tuple[Path, ...]:
    """Files of all checklists that plugins brought."""
    return tuple(_checklists)


@cache
def _shipped(name: str) -> Family:
    return import_module(f"day0.registry.families.{name}").FAMILY
