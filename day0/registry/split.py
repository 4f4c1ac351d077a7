"""Whether n ranks may share an op, and what each of them then holds.

The plan asks before anything is built, the shard pass when it cuts: one function each, no torch.
Axes: "tp" cuts along the op's own way, "ep" deals out whole experts, "cp" deals out the sequence.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from day0.ir import format as formats
from day0.ir.op import Op
from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, Shapes
from day0.registry.index import family
from day0.registry.ways import Cut, Way

AXES = ("tp", "ep", "cp")


def split(op: Op, shapes: Shapes, axis: str, n: int, way: Way | None = None) -> tuple[str, ...]:
    """All reasons why n ranks may not share `op`; () when they may.

    `way`: how the placement cuts it on "tp" (None: every rank does all of it). Names, counts and
    quotients are told, so that one look says what would be legal.
    """
    if axis not in AXES:
        raise ValueError(f"no mesh axis {axis!r} (there are: {', '.join(AXES)})")
    if n == 1:
        return ()
    if axis == "cp":
        return _of_sequence(op, shapes)
    if axis == "ep":
        way = expert_way(family(op.family), shapes)
    if way is None or way.optional:
        return ()
    return (*_units(way, n), *_borders(op, shapes, way, n))


def taken(op: Op, shapes: Shapes, way: Way | None, n: int) -> Way | None:
    """`way`, or None where it is optional and n ranks cannot take it: each then does all of the op,
    and the first alone adds its result to the sum."""
    if way is None or not way.optional:
        return way
    must = replace(way, optional=False)
    return None if split(op, shapes, "tp", n, must) else way


def expert_way(kind: Family, shapes: Shapes) -> Way | None:
    """The way on the axis "ep", if the family has one."""
    return next((way for way in kind.ways(shapes) if way.axis == "ep"), None)


def local(shapes: Shapes, way: Way | None, n: int) -> Shapes:
    """What the rank with the largest share sees of an op: weights, cache entries and counts cut.

    Inputs keep their rows; their channels are cut where they come split. Illegal cuts are rounded
    up, so that sizes can be told of them as well.
    """
    if way is None or n == 1:
        return shapes
    weights, caches = dict(shapes.weights), dict(shapes.caches)
    inputs, attrs = dict(shapes.inputs), dict(shapes.attrs)
    for cut in way.cuts:
        parts = cut.parts(n) or n
        for slot, dim in cut.weights:
            if slot in weights:
                weights[slot] = _cut(weights[slot], dim, parts)
        for slot, dim in cut.caches:
            if slot in caches:
                caches[slot] = tuple(_cut(spec, dim, parts) for spec in caches[slot])
        for slot in cut.inputs:
            if slot in inputs:
                inputs[slot] = _cut(inputs[slot], len(inputs[slot].dims) - 1, parts)
        for name in cut.counts:
            attrs[name] = math.ceil(attrs[name] / parts)
    return replace(shapes, weights=weights, caches=caches, inputs=inputs, attrs=attrs)


def _cut(spec: TensorSpec, dim: int, parts: int) -> TensorSpec:
    size = spec.dims[dim]
    assert isinstance(size, int)
    dims = (*spec.dims[:dim], math.ceil(size / parts), *spec.dims[dim + 1 :])
    return replace(spec, dims=dims)


def _units(way: Way, n: int) -> tuple[str, ...]:
    if way.padded:
        return tuple(
            f"{cut.units} {cut.what} are fewer than {n} ranks"
            for cut in way.cuts
            if cut.units < n
        )  # fmt: skip
    return tuple(_told(cut, n) for cut in way.cuts if not cut.parts(n))


def _told(cut: Cut, n: int) -> str:
    if cut.shared and cut.units < n:
        return f"{n} is no multiple of {cut.units} {cut.what}, so none of them can be repeated"
    return f"{cut.units} {cut.what} / {n} = {cut.units / n:g}, not whole"


def _borders(op: Op, shapes: Shapes, way: Way, n: int) -> tuple[str, ...]:
    """Every border of a storage format that a cut misses, of both dims (field case 84). A share
    that may be rounded up is rounded to a border."""
    if way.padded:
        return ()
    names: Mapping[str, str] = {**dict(op.weights), **{use.slot: use.cache for use in op.caches}}
    reasons = []
    for cut in way.cuts:
        parts = cut.parts(n)
        if parts <= 1:
            continue
        cut_specs = [
            (slot, dim, spec)
            for slot, dim in cut.weights
            for spec in (shapes.weights.get(slot),)
            if spec is not None
        ]
        cut_specs += [
            (slot, dim, spec) for slot, dim in cut.caches for spec in shapes.caches.get(slot, ())
        ]
        for slot, dim, spec in cut_specs:
            border = formats.get(spec.format).borders(dim, len(spec.dims))
            size = spec.dims[dim]
            assert isinstance(size, int)
            share = size / parts
            if border > 1 and share % border:
                side = "K" if dim == len(spec.dims) - 1 else "N"
                reasons.append(
                    f"{names.get(slot, slot)}: {side} {size}/{parts} = {share:g} is no "
                    f"multiple of {border} ({spec.format})"
                )
    return tuple(dict.fromkeys(reasons))


def _of_sequence(op: Op, shapes: Shapes) -> tuple[str, ...]:
    kind = family(op.family)
    if op.family == "unknown":
        return ("an unknown operator may look at other tokens",)
    stateful = any(use.slot == "state" for use in op.caches)
    if stateful and kind.transition is None:
        return (f"{op.family} has no transition by which its state is handed on",)
    return ()
