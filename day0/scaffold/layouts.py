"""What the arguments of a new operator look like: dims by parameter, for cases and signatures."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from day0.analysis.inventory import Entry
from day0.analysis.worklist import NewBlock, NewOperator
from day0.ir.cache import CacheSpec
from day0.ir.graph import Model
from day0.ir.op import Op
from day0.ir.tensor import TensorSpec
from day0.scaffold.sizes import held_out

SMALL = 1 << 20  # elements of a case's weights that a CPU compares in a moment
WHOLE = ("int8", "int16", "int32", "int64", "uint8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """As day0_kernels.common.made_up.Layout, which this room does not import; `pages` holds
    (every, span, dims by part)."""

    rows: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]
    weights: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    slots: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pages: Mapping[str, tuple[int, int, Mapping[str, tuple[int, ...]]]] = field(
        default_factory=dict
    )
    attrs: Mapping[str, Any] = field(default_factory=dict)
    whole: tuple[str, ...] = ()
    wide: tuple[str, ...] = ()

    @property
    def is_small(self) -> bool:
        """Whether a CPU compares it in a moment."""
        return sum(prod(dims) for dims in self.weights.values()) <= SMALL


def of_unknown(operator: NewOperator, blocks: tuple[NewBlock, ...], width: int) -> Layout:
    """x and all its weights; a mixer also sees every row of its sequences so far."""
    mixes = any(operator.stem in block.operators for block in blocks if block.slot == "mixer")
    return Layout(
        rows={"x": (width,)},
        outputs={"y": (width,)},
        weights={tensor.name: tensor.dims for tensor in operator.weights},
        pages={"history": (1, 0, {"x": (width,)})} if mixes else {},
    )


def odd(layout: Layout) -> Layout:
    """The same with held-out sizes; an attribute that divides one of the sizes is a size too."""
    tables = (layout.rows, layout.outputs, layout.weights, layout.slots)
    pages = [dims for _, _, parts in layout.pages.values() for dims in parts.values()]
    found = {dim for table in tables for dims in table.values() for dim in dims}
    found |= {dim for dims in pages for dim in dims}
    sizes = [
        value
        for value in layout.attrs.values()
        if type(value) is int and value > 1 and any(dim % value == 0 for dim in found)
    ]
    other = held_out((*found, *sizes))

    def changed(table: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return {name: tuple(other[dim] for dim in dims) for name, dims in table.items()}

    return replace(
        layout,
        rows=changed(layout.rows),
        outputs=changed(layout.outputs),
        weights=changed(layout.weights),
        slots=changed(layout.slots),
        pages={
            slot: (every, span, changed(parts))
            for slot, (every, span, parts) in layout.pages.items()
        },
        attrs={
            name: other[value] if type(value) is int and value in sizes else value
            for name, value in layout.attrs.items()
        },
    )


def of_entry(entry: Entry, model: Model) -> Layout:
    """Of a family with a schema: what the Graph says of one of its operators."""
    graph = model.graphs["main"]
    op = _op(entry, model)
    outputs = {slot: graph.values[value] for slot, value in op.outputs}
    specs = {**entry.shapes.inputs, **entry.shapes.weights, **outputs}
    slots: dict[str, tuple[int, ...]] = {}
    wide = [name for name, spec in specs.items() if spec.format == "fp32"]
    pages: dict[str, tuple[int, int, Mapping[str, tuple[int, ...]]]] = {}
    for use in op.caches:
        cache = model.caches[use.cache]
        parts = {part: _dims(spec) for part, spec in cache.parts}
        if _is_paged(cache):
            pages[use.slot] = (cache.every, cache.span, parts)
            continue
        for part, dims in parts.items():
            lead = (cache.span,) if cache.growth == "window" else ()
            for name in _names(op, use.slot, part, model):
                slots[name] = (*lead, *dims)
                if cache.role == "state":
                    wide.append(name)
    return Layout(
        rows={slot: _dims(spec) for slot, spec in entry.shapes.inputs.items()},
        outputs={slot: _dims(spec) for slot, spec in outputs.items()},
        weights={slot: _dims(spec) for slot, spec in entry.shapes.weights.items()},
        slots=slots,
        pages=pages,
        attrs=dict(entry.attrs),
        whole=tuple(name for name, spec in specs.items() if spec.format in WHOLE),
        wide=tuple(wide),
    )


def written(entry: Entry, model: Model) -> tuple[str, ...]:
    """Parameters through which an operator writes to its caches, by all their names."""
    op = _op(entry, model)
    return tuple(
        name
        for use in op.caches
        if "w" in use.mode
        for part, _ in model.caches[use.cache].parts
        for name in _names(op, use.slot, part, model)
    )


def _op(entry: Entry, model: Model) -> Op:
    return next(op for op in model.graphs["main"].ops if op.id == entry.ops[0])


def _names(op: Op, slot: str, part: str, model: Model) -> tuple[str, ...]:
    """The long name of a cache's part, and the short one where it means nothing else
    (runtime.binder)."""
    parts = [name for use in op.caches for name, _ in model.caches[use.cache].parts]
    taken = {name for name, _ in (*op.inputs, *op.weights, *op.outputs)}
    long = f"{slot}_{part}"
    return (long,) if parts.count(part) > 1 or part in taken else (long, part)


def _is_paged(cache: CacheSpec) -> bool:
    return cache.growth in ("per-token", "pooled") or (
        cache.growth == "window" and not cache.slotted
    )


def _dims(spec: TensorSpec) -> tuple[int, ...]:
    """Without the rows."""
    return tuple(dim for dim in spec.dims if isinstance(dim, int))
