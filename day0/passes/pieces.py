"""What one rank holds of an op: weights, caches and attributes, cut along the op's way."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from day0.ir import format as formats
from day0.ir.cache import CacheSpec
from day0.ir.op import Op, Slots
from day0.ir.weight import Weight
from day0.parallel.mesh import Axis, shares
from day0.passes.cut_weight import cut_weight
from day0.passes.state import State
from day0.registry.family import Shapes
from day0.registry.ways import Cut, Way

Ways = tuple[tuple[Way, Axis], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The share of one op: `weights` and `caches` by name as this rank holds them, `weight_slots`
    those that it still has, `attrs` with the counts of its share."""

    weights: Mapping[str, Weight]
    caches: Mapping[str, CacheSpec]
    weight_slots: Slots
    attrs: tuple[tuple[str, object], ...]


def span_in(
    cut: Cut, size: int, axis: Axis, *, padded: bool = False, border: int = 1
) -> tuple[int, int]:
    """First and end of the rank's share of `size` elements that hold the cut's units in order.

    Shares that may be rounded up (`padded`) are whole units, whole `border`s where a storage format
    has blocks, and differ by one of them at most.
    """
    each = size // cut.units
    if not padded:
        parts = cut.parts(axis.size)
        number = axis.place * parts // axis.size
        return number * (size // parts), (number + 1) * (size // parts)
    step = -(-border // each)
    first, end = shares(-(-cut.units // step), axis.size)[axis.place]
    return min(first * step, cut.units) * each, min(end * step, cut.units) * each


def border_of(cut: Cut, shapes: Shapes) -> int:
    """The multiple of elements at which every weight of the cut may be cut in its format."""
    specs = [(shapes.weights[slot], dim) for slot, dim in cut.weights if slot in shapes.weights]
    return math.lcm(
        1, *(formats.get(spec.format).borders(dim, len(spec.dims)) for spec, dim in specs)
    )


def piece(op: Op, shapes: Shapes, state: State, ways: Ways) -> Piece:
    """The rank's share of `op`, cut one way after another; all of it where there is none."""
    weights: dict[str, Weight] = {name: state.weights[name] for _, name in op.weights}
    caches: dict[str, CacheSpec] = {}
    if op.family != "cache_write":  # who reads a cache says how it is cut
        caches = {use.cache: state.caches[use.cache] for use in op.caches}
    slots, attrs = dict(op.weights), dict(op.attrs)
    for way, axis in ways:
        for cut in way.cuts:
            border = border_of(cut, shapes)
            for slot, dim in cut.weights:
                if slot in slots:
                    weight = weights[slots[slot]]
                    size = weight.spec.dims[dim]
                    assert isinstance(size, int)
                    span = span_in(cut, size, axis, padded=way.padded, border=border)
                    weights[weight.name] = cut_weight(weight, dim, span)
            for use in op.caches:
                for slot, dim in cut.caches:
                    if slot == use.slot:
                        caches[use.cache] = _cut_cache(caches[use.cache], dim, cut, axis)
            if cut.first:
                span = span_in(cut, cut.units, axis, padded=way.padded, border=border)
                attrs[cut.first] = span[0]
            if cut.total:
                attrs[cut.total] = cut.units
            for name in cut.counts:
                attrs[name] = attrs[name] // cut.parts(axis.size)
        if way.yields == "partial" and way.axis == "tp" and axis.place:
            # what is added once is added by the first rank
            named = {slot for cut in way.cuts for slot, _ in cut.weights}
            slots = {slot: name for slot, name in slots.items() if not _bias(slot, named)}
    kept = set(slots.values())
    return Piece(
        weights={name: weight for name, weight in weights.items() if name in kept},
        caches=caches,
        weight_slots=tuple(slots.items()),
        attrs=tuple(sorted(attrs.items())),
    )


def _cut_cache(cache: CacheSpec, dim: int, cut: Cut, axis: Axis) -> CacheSpec:
    parts = []
    for name, spec in cache.parts:
        size = spec.dims[dim]
        assert isinstance(size, int)
        start, stop = span_in(cut, size, axis)
        dims = (*spec.dims[:dim], stop - start, *spec.dims[dim + 1 :])
        parts.append((name, replace(spec, dims=dims)))
    return replace(cache, parts=tuple(parts))


def _bias(slot: str, named: set[str]) -> bool:
    return slot.endswith("bias") and slot not in named
