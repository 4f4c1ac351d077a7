"""Cache bytes: growing per token, pooled, windowed and per sequence, at a recipe's precision."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from day0.analysis.cost import stored_bytes
from day0.ir.cache import STATE_INTERVAL, CacheSpec
from day0.ir.graph import Model
from day0.ir.recipe import RECIPES, Recipe

LENGTHS = (4096, 32_768, 131_072)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTotals:
    """Per token: what growing caches of keys, values and latents (`kv`) and of index keys
    (`index`) add per further token. Per sequence: recurrent states and conv tails (`state`),
    windows when full (`window`)."""

    kv_bytes_per_token: float
    index_bytes_per_token: float
    state_bytes_per_sequence: int
    window_bytes_per_sequence: int


def entry_bytes(cache: CacheSpec, recipe: Recipe) -> int:
    """Bytes of one entry."""
    return sum(stored_bytes(recipe.part(cache, part), spec.dims) for part, spec in cache.parts)


def bytes_at(cache: CacheSpec, recipe: Recipe, num_tokens: int) -> int:
    """Bytes one sequence of `num_tokens` tokens holds in this cache."""
    return cache.entries(num_tokens) * entry_bytes(cache, recipe)


def totals(model: Model, recipe: Recipe = RECIPES["bf16"]) -> CacheTotals:
    """Sums over the trunk's caches."""
    kv = index = 0.0
    state = window = 0
    for cache in trunk(model):
        size = entry_bytes(cache, recipe)
        if cache.growth in ("per-token", "pooled"):
            if cache.role == "index":
                index += size / cache.every
            else:
                kv += size / cache.every
        elif cache.growth == "per-sequence" or cache.role == "conv":
            state += size * (cache.span if cache.growth == "window" else 1)
        else:
            window += size * cache.span
    return CacheTotals(
        kv_bytes_per_token=_whole(kv),
        index_bytes_per_token=_whole(index),
        state_bytes_per_sequence=state,
        window_bytes_per_sequence=window,
    )


def checkpoint(found: CacheTotals) -> dict[str, float]:
    """What a state that a prefix cache keeps costs: a copy of all that a sequence has once, at
    every `interval` tokens; pages of the prefix are shared and not copied."""
    size = found.state_bytes_per_sequence + found.window_bytes_per_sequence
    return {
        "bytes": size,
        "interval": STATE_INTERVAL,
        "bytes_per_token": _whole(size / STATE_INTERVAL),
    }


def version_bytes(model: Model, recipe: Recipe) -> int:
    """What one more token of a draft costs a sequence that decodes with speculation: everything
    that lies in its slot, once more, the drafts' own included."""
    slotted = (c for c in model.caches.values() if c.slotted or c.growth == "per-sequence")
    return sum(entry_bytes(cache, recipe) * max(cache.span, 1) for cache in slotted)


def held(model: Model, recipe: Recipe, num_tokens: int) -> int:
    """Bytes that one sequence of `num_tokens` tokens holds in all the trunk's caches."""
    return sum(bytes_at(cache, recipe, num_tokens) for cache in trunk(model))


def paged(model: Model, recipe: Recipe, num_tokens: int) -> int:
    """Bytes that an engine with one page size for all layers reserves for such a sequence.

    There every cache of keys and values takes pages for all tokens, a window's too, and every page
    is as large as the largest of its role; the rest is as in `held` (field cases 62 and 80). day0
    itself keeps windows to their span: `held` is what it reserves.
    """
    reserved = 0
    largest: dict[str, list[int]] = {}
    for cache in trunk(model):
        if cache.growth == "per-token" or (cache.growth == "window" and not cache.slotted):
            largest.setdefault(cache.role, []).append(entry_bytes(cache, recipe))
        else:
            reserved += bytes_at(cache, recipe, num_tokens)
    return reserved + num_tokens * sum(len(sizes) * max(sizes) for sizes in largest.values())


def curve(model: Model, recipe: Recipe) -> list[dict[str, int]]:
    """For sequences of some lengths what they hold at least, and what equal pages reserve."""
    return [
        {
            "tokens": tokens,
            "bytes": held(model, recipe, tokens),
            "equal_pages_bytes": paged(model, recipe, tokens),
        }
        for tokens in LENGTHS
    ]


def growth(model: Model, recipe: Recipe, longest: int) -> dict[str, Any]:
    """What one sequence holds in each kind of cache (summed over layers) at powers of two up to
    `longest` tokens: {"tokens": [...], "caches": [{"name", "bytes": [...]}]}."""
    lengths = [2**power for power in range(10, max(longest, 1024).bit_length())]
    if longest > lengths[-1]:
        lengths.append(longest)
    held: dict[str, list[int]] = {}
    for cache in trunk(model):
        line = held.setdefault(cache.name.rpartition(".mixer.")[2], [0] * len(lengths))
        for at, tokens in enumerate(lengths):
            line[at] += bytes_at(cache, recipe, tokens)
    return {
        "tokens": lengths,
        "caches": [{"name": name, "bytes": line} for name, line in held.items()],
    }


def trunk(model: Model) -> list[CacheSpec]:
    """Caches of the main graph (drafts have their own)."""
    used = {use.cache for op in model.graphs["main"].ops for use in op.caches}
    return [cache for name, cache in model.caches.items() if name in used]


def rows(model: Model, recipe: Recipe) -> list[dict[str, Any]]:
    """One row for every kind of cache (same parts, growth and last name), with its layers."""
    table: dict[tuple[Any, ...], dict[str, Any]] = {}
    for cache in trunk(model):
        size = entry_bytes(cache, recipe)
        short = cache.name.rpartition(".mixer.")[2]
        key = short, cache.growth, cache.span, cache.every, size, cache.role
        row = table.get(key)
        if row is None:
            row = table[key] = _row(cache, short, size, recipe)
        row["layers"].append(cache.layer)
    return list(table.values())


def _row(cache: CacheSpec, name: str, size: int, recipe: Recipe) -> dict[str, Any]:
    row: Mapping[str, Any] = {
        "name": name,
        "role": cache.role,
        "growth": cache.growth,
        "format": recipe.cache(cache),
        "layers": [],
        "bytes_per_token": size if cache.growth == "per-token" else 0,
        "window_tokens": cache.span if cache.growth == "window" else 0,
        "pool": cache.every if cache.growth == "pooled" else 0,
        "bytes_per_pool": size if cache.growth == "pooled" else 0,
        "bytes_per_entry": size,
        "bytes_per_sequence": size if cache.growth == "per-sequence" else 0,
    }
    if cache.growth == "window":
        row = {**row, "bytes_per_sequence": size * cache.span}
    return dict(row)


def _whole(value: float) -> float:
    return int(value) if float(value).is_integer() else value
