"""Distinct operators, how often each occurs, and whether something that exists takes it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from day0.analysis.cost import Cost, cost
from day0.ir.graph import Graph, Model
from day0.ir.op import Op
from day0.ir.recipe import Recipe
from day0.registry import index
from day0.registry.family import Context, Family, Shapes, Verdict
from day0.registry.judge import judge
from day0.registry.shapes import shapes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One distinct canonical operator: same family, attributes, shapes and formats.

    `count` ops, `layers` where; `params` over all of them; `decode`, `prefill` per token over all.
    """

    family: str
    attrs: tuple[tuple[str, Any], ...]
    shapes: Shapes
    count: int
    layers: tuple[int, ...]
    ops: tuple[str, ...]
    params: int
    decode: Cost
    prefill: Cost
    verdict: Verdict
    because: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFraction:
    """Share of what is judged `new`: of distinct ops, parameters, decode flops and bytes."""

    ops: float
    params: float
    flops: float
    bytes: float


def inventory(
    model: Model,
    recipe: Recipe,
    *,
    context: int = 4096,
    capability: tuple[int, int] | None = None,
    lookup: Callable[[str], Family] = index.family,
) -> tuple[Entry, ...]:
    """Entries of the main graph, dearest decode first within new, quant-rework, reuse."""
    graph = model.graphs["main"]
    found: dict[tuple[Any, ...], list[Op]] = {}
    for op in graph.ops:
        found.setdefault(_key(op, model, graph, recipe), []).append(op)
    entries = []
    counted: set[str] = set()
    for ops in found.values():
        shapes = shapes_of(ops[0], graph, model, recipe)
        decode = cost(family_name=ops[0].family, shapes=shapes, context=Context(length=context))
        prefill = cost(
            family_name=ops[0].family,
            shapes=shapes,
            context=Context(phase="prefill", length=context),
        )
        params = 0
        for op in ops:
            for _, name in op.weights:
                if name not in counted:
                    counted.add(name)
                    params += model.weights[name].spec.width
        entries.append(
            Entry(
                family=ops[0].family,
                attrs=ops[0].attrs,
                shapes=shapes,
                count=len(ops),
                layers=tuple(sorted({op.layer for op in ops if op.layer >= 0})),
                ops=tuple(op.id for op in ops),
                params=params,
                decode=_times(decode, len(ops)),
                prefill=_times(prefill, len(ops)),
                verdict=judge(lookup(ops[0].family), shapes, capability=capability),
                because=ops[0].because,
            )
        )
    order = {"new": 0, "quant-rework": 1, "reuse": 2}
    entries.sort(
        key=lambda e: (order[e.verdict.status], -e.decode.bytes, -e.decode.flops, e.family)
    )
    return tuple(entries)


def new_fraction(entries: tuple[Entry, ...]) -> NewFraction:
    """Shares of the entries judged `new`."""
    new = [entry for entry in entries if entry.verdict.status == "new"]

    def share(measure: Callable[[Entry], float]) -> float:
        total = sum(measure(entry) for entry in entries)
        return sum(measure(entry) for entry in new) / total if total else 0.0

    return NewFraction(
        ops=share(lambda entry: 1),
        params=share(lambda entry: entry.params),
        flops=share(lambda entry: entry.decode.flops),
        bytes=share(lambda entry: entry.decode.bytes),
    )


def _key(op: Op, model: Model, graph: Graph, recipe: Recipe) -> tuple[Any, ...]:
    own = [(slot, model.weights[name]) for slot, name in op.weights]
    # A router and another matrix of its shape run in different formats.
    weights = tuple((slot, weight.spec, recipe.weight(weight)) for slot, weight in own)
    caches = tuple((use.slot, use.mode, model.caches[use.cache].parts) for use in op.caches)
    values = tuple((slot, graph.values[value]) for slot, value in op.inputs)
    return op.family, op.attrs, weights, caches, values


def _times(one: Cost, count: int) -> Cost:
    return Cost(
        flops=one.flops * count,
        weight_bytes=one.weight_bytes * count,
        cache_bytes=one.cache_bytes * count,
    )
