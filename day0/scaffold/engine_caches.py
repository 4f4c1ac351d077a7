"""Caches as an engine takes them: keys and values, latents, recurrent states; the rest in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from day0.ir.cache import CacheSpec
from day0.ir.graph import Model

# Formats that are a torch dtype by themselves.
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Caches called `name` below their `layers`: `spec` is vLLM's class for them, `sizes` its
    arguments for one rank of one."""

    name: str
    spec: str
    sizes: Mapping[str, int]
    dtype: str
    layers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a sequence holds in each of `layers`, in order: `shapes`, `dtypes`, and their names."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    layers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Caches that no class of the engine is known to hold, and why."""

    name: str
    why: str
    layers: tuple[int, ...]


Row = TypeVar("Row", Attention, State, Left)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCaches:
    """All caches of the main graph."""

    attention: tuple[Attention, ...]
    states: tuple[State, ...]
    left: tuple[Left, ...]


def engine_caches(model: Model) -> EngineCaches:
    """Every cache of the main graph, in one of three groups."""
    main = dict.fromkeys(use.cache for op in model.graphs["main"].ops for use in op.caches)
    layers: dict[int, list[CacheSpec]] = {}
    for name in main:
        layers.setdefault(model.caches[name].layer, []).append(model.caches[name])
    attention: list[Attention] = []
    states: list[State] = []
    left: list[Left] = []
    for layer, caches in layers.items():
        # A page of an engine holds either tokens or states.
        if all(_is_state(cache) and _dtypes(cache) for cache in caches):
            states.append(_state(layer, caches))
            continue
        for cache in caches:
            found = _attention(cache)
            if isinstance(found, str):
                left.append(Left(name=_short(cache), why=found, layers=(layer,)))
            else:
                attention.append(found)
    return EngineCaches(attention=_merged(attention), states=_merged(states), left=_merged(left))


def _merged(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Rows that differ in their layers alone as one."""
    kinds: list[tuple[Row, list[int]]] = []
    for row in rows:
        bare = replace(row, layers=())
        for kind, layers in kinds:
            if kind == bare:
                layers.extend(row.layers)
                break
        else:
            kinds.append((bare, list(row.layers)))
    return tuple(replace(kind, layers=tuple(layers)) for kind, layers in kinds)


def _is_state(cache: CacheSpec) -> bool:
    return cache.growth == "per-sequence" or cache.slotted


def _short(cache: CacheSpec) -> str:
    """Below its layer: "mixer.kv"."""
    return cache.name.removeprefix(f"layers.{cache.layer}.")


def _dtypes(cache: CacheSpec) -> tuple[str, ...]:
    """Of its parts; () where one is held in a narrow format."""
    formats = [spec.format for _, spec in cache.parts]
    known = all(name in DTYPES for name in formats)
    return tuple(DTYPES[name] for name in formats) if known else ()


def _state(layer: int, caches: Sequence[CacheSpec]) -> State:
    names, shapes, dtypes = [], [], []
    for cache in caches:
        for (part, spec), dtype in zip(cache.parts, _dtypes(cache), strict=True):
            dims = tuple(int(dim) for dim in spec.dims)
            names.append(_short(cache) if len(cache.parts) == 1 else f"{_short(cache)}.{part}")
            # Tails of a convolution stand with their channels first.
            shapes.append((*dims, cache.span) if cache.growth == "window" else dims)
            dtypes.append(dtype)
    return State(names=tuple(names), shapes=tuple(shapes), dtypes=tuple(dtypes), layers=(layer,))


def _attention(cache: CacheSpec) -> Attention | str:
    """The class and its arguments, or why there is none."""
    dtypes = set(_dtypes(cache))
    dims = [tuple(int(dim) for dim in spec.dims) for _, spec in cache.parts]
    if cache.growth == "pooled":
        return f"one entry for {cache.every} tokens"
    if _is_state(cache):
        return "held per sequence, beside a cache of tokens"
    if len(dtypes) != 1:
        return f"held as {', '.join(sorted({spec.format for _, spec in cache.parts}))}"
    spec, sizes = "", {}
    if len(dims) == 2 and all(len(one) == 2 for one in dims) and dims[0][0] == dims[1][0]:
        (heads, key), (_, value) = dims
        if cache.growth == "per-token":
            spec = "FullAttentionSpec"
            sizes = {"num_kv_heads": heads, "head_size": key, "head_size_v": value}
        elif key == value:
            spec = "SlidingWindowSpec"
            sizes = {"num_kv_heads": heads, "head_size": key, "sliding_window": cache.span}
    elif cache.growth == "per-token" and all(len(one) == 1 for one in dims):
        spec, sizes = "MLAAttentionSpec", {"num_kv_heads": 1, "head_size": sum(map(sum, dims))}
    if not spec:
        parts = " and ".join(f"[{', '.join(map(str, one))}]" for one in dims)
        return f"entries of {parts}, the last {cache.span} tokens"
    return Attention(
        name=_short(cache), spec=spec, sizes=sizes, dtype=dtypes.pop(), layers=(cache.layer,)
    )
