"""What the cache of a transformers model really holds after a forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

GROUPS = ("kv", "index", "window", "state", "bookkeeping")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTensor:
    """One tensor of a cache: its attribute path on the layer, shape, and torch dtype word."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    elements: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGroup:
    """Tensors of one layer that grow alike, with their sums."""

    elements: int
    bytes: int
    tensors: tuple[CacheTensor, ...]


def named_tensors(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors below an attribute, dict entries as `path[key]`."""
    import torch

    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from named_tensors(entry, f"{path}[{key}]")
    elif isinstance(value, (list, tuple)):
        for position, entry in enumerate(value):
            yield from named_tensors(entry, f"{path}[{position}]")


def group_of(name: str, *, sliding: bool) -> str:
    """Which of GROUPS a cache tensor belongs to.

    kv and index grow with the tokens (an entry per token or per pool), window is bounded (the
    last tokens, or the rest of an unfinished pool), state has one size from the first token on,
    bookkeeping is what the class keeps for its own administration.
    """
    if name in ("keys", "values"):
        return "window" if sliding else "kv"
    if name in ("indexer_keys", "idx_keys") or name == "compressed_kv[indexer]":
        return "index"
    if name == "compressed_kv[compressor]":
        return "kv"
    if name.startswith(("buffer_kv", "buffer_gate", "overlap")):
        return "window"
    if name.startswith(("conv_states", "recurrent_states", "linear_cache")):
        return "state"
    if name in ("indexer_position_ids", "_sliding_window_tensor"):
        return "bookkeeping"
    raise LookupError(f"cache tensor {name} belongs to no known group")


def layer_cache(layer: Any, extra: Any = None) -> dict[str, CacheGroup]:
    """The tensors of one cache layer by group; empty tensors are kept, aliases counted once."""
    sliding = getattr(layer, "sliding_window", None) is not None
    found: dict[str, list[CacheTensor]] = {group: [] for group in GROUPS}
    seen: set[int] = set()
    sources = [*vars(layer).items(), ("linear_cache", extra)]
    for attribute, value in sources:
        for name, tensor in named_tensors(value, attribute):
            if tensor.numel() and tensor.data_ptr() in seen:
                continue
            seen.add(tensor.data_ptr())
            entry = CacheTensor(
                name=name,
                shape=tuple(tensor.shape),
                dtype=str(tensor.dtype).removeprefix("torch."),
                elements=tensor.numel(),
                bytes=tensor.numel() * tensor.element_size(),
            )
            found[group_of(name, sliding=sliding)].append(entry)
    return {
        group: CacheGroup(
            elements=sum(entry.elements for entry in entries),
            bytes=sum(entry.bytes for entry in entries),
            tensors=tuple(entries),
        )
        for group, entries in found.items()
    }


def cache_contents(cache: Any) -> tuple[dict[str, CacheGroup], ...]:
    """Every layer's groups, in layer order, of a transformers cache object."""
    linear = getattr(cache, "linear_cache", [])
    return tuple(
        layer_cache(layer, linear[position] if position < len(linear) else None)
        for position, layer in enumerate(cache.layers)
    )
