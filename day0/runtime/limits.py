"""How much a session's caches hold: what is asked for, and the pages and slots that it takes."""

from collections.abc import Collection
from dataclasses import dataclass, replace

import torch

from day0.ir.cache import CacheSpec, page_size
from day0.ir.recipe import Recipe
from day0.runtime.loader import DTYPES
from day0.runtime.pools import Limits, spans
from day0.runtime.storage import Storage

# Rows of a prefill step: enough to fill the device.
CHUNK = {"cpu": 512, "cuda": 8192}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """`tokens` all sequences together may hold, `sequences` at once, `chunk` rows of a prefill
    step (0: what suits the device), `longest` tokens of one sequence (0: as many as all), `drafts`
    tokens of a sequence that a verify step checks, `replay` as Limits have it; `kept` tokens of
    earlier prefixes beside, with a state every `interval` of them (`prefix_bytes` in all)."""

    tokens: int = 4096
    sequences: int = 8
    chunk: int = 0
    longest: int = 0
    drafts: int = 0
    replay: bool = False
    kept: int = 0
    interval: int = 0
    prefix_bytes: int = 0

    @property
    def states(self) -> int:
        """States kept of earlier prefixes."""
        return self.kept // self.interval if self.interval else 0


def up_to_16(count: int) -> int:
    """Triton tells multiples of 16 from other numbers."""
    return -(-count // 16) * 16


def cache_dtype(recipe: Recipe, cache: CacheSpec) -> torch.dtype:
    return DTYPES.get(recipe.cache(cache), DTYPES[recipe.plain])


def cache_bytes(recipe: Recipe, caches: Collection[CacheSpec], sizes: Sizes, device: str) -> int:
    """What a session's caches would take, without making them."""
    limits = limits_of(caches, sizes, device)
    storage = Storage(
        {cache.name: cache for cache in caches},
        page_size=limits.page_size,
        num_pages=limits.num_pages,
        num_slots=limits.num_slots,
        versions=limits.versions,
        dtypes={cache.name: cache_dtype(recipe, cache) for cache in caches},
        device=torch.device("meta"),
    )
    return sum(part.nbytes for parts in storage.parts.values() for part in parts.values())


def limits_of(caches: Collection[CacheSpec], sizes: Sizes, device: str) -> Limits:
    """Pages and slots for these sizes on a device ("cpu", "cuda", "cuda:1")."""
    chunk = sizes.chunk or CHUNK.get(device.partition(":")[0], CHUNK["cpu"])
    sizes = replace(sizes, chunk=chunk)
    size = page_size(caches)
    tokens = sizes.tokens + sizes.sequences * sizes.drafts
    num = {
        span: -(-tokens // size)
        + (sizes.sequences if not span else sizes.sequences * (2 + sizes.chunk // size))
        + (sizes.states * (span // size + 2) if span else -(-sizes.kept // size))
        for span in spans(caches)
    }
    return Limits(
        page_size=size,
        num_pages=num,
        num_slots=sizes.sequences,
        chunk=sizes.chunk,
        drafts=sizes.drafts,
        replay=sizes.replay,
    )
