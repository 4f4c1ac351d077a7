"""An op as its family sees it, in the formats of a recipe."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from day0.ir.cache import CacheSpec
from day0.ir.graph import Graph
from day0.ir.op import Op
from day0.ir.recipe import Recipe
from day0.ir.weight import Weight
from day0.registry.family import Shapes


class Named(Protocol):
    """What has the weights and caches that a graph names: a Model, or a lowered one."""

    @property
    def weights(self) -> Mapping[str, Weight]: ...
    @property
    def caches(self) -> Mapping[str, CacheSpec]: ...


def shapes_of(op: Op, graph: Graph, model: Named, recipe: Recipe) -> Shapes:
    """Specs by slot: values as the graph has them, weights and caches as the recipe runs them."""
    weights = {}
    for slot, name in op.weights:
        weight = model.weights[name]
        weights[slot] = replace(weight.spec, format=recipe.weight(weight))
    caches = {}
    for use in op.caches:
        cache = model.caches[use.cache]
        caches[use.slot] = tuple(
            replace(spec, format=recipe.part(cache, part)) for part, spec in cache.parts
        )
    return Shapes(
        inputs={slot: graph.values[value] for slot, value in op.inputs},
        weights=weights,
        caches=caches,
        attrs=dict(op.attrs),
    )
