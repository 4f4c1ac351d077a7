"""All families by name; a file is imported when it is asked for."""

from functools import cache
from importlib import import_module

from day0.registry.family import Family

NAMES = (
    "activation",
    "add",
    "attn_residual",
    "cache_write",
    "compress",
    "concat",
    "embedding",
    "experts",
    "gate",
    "gated_rmsnorm",
    "gdn",
    "glu",
    "gqa",
    "hyper_connection",
    "hyper_gate",
    "hyper_write",
    "indexer",
    "kda",
    "layernorm",
    "lightning",
    "linear",
    "mla",
    "moe_route",
    "ngram_embedding",
    "ngram_gate",
    "position_scale",
    "rmsnorm",
    "rope",
    "shared_kv",
    "short_conv",
    "softcap",
    "sparse_gqa",
    "sparse_mla",
    "streams",
    "take_rows",
    "unknown",
)


@cache
def family(name: str) -> Family:
    """The family called `name`; KeyError with the known names otherwise."""
    if name not in NAMES:
        raise KeyError(f"no operator family {name!r} (there are: {', '.join(NAMES)})")
    return import_module(f"day0.registry.families.{name}").FAMILY
