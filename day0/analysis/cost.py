"""What a step costs: flops and bytes per token of each op, in prefill and in decode."""

from collections.abc import Mapping

from day0.ir.graph import Graph, Model
from day0.ir.op import Op
from day0.ir.recipe import Recipe
from day0.registry.cost import Cost, cost, stored_bytes
from day0.registry.family import Context
from day0.registry.shapes import shapes_of

__all__ = ("Cost", "cost", "cost_of", "stored_bytes", "totals")


def cost_of(op: Op, graph: Graph, model: Model, recipe: Recipe, context: Context) -> Cost:
    """Cost of one op per token."""
    return cost(family_name=op.family, shapes=shapes_of(op, graph, model, recipe), context=context)


def totals(
    model: Model, recipe: Recipe, contexts: Mapping[str, Context], graph: str = "main"
) -> dict[str, Cost]:
    """The whole graph's cost per token in each named context."""
    found = model.graphs[graph]
    result = {}
    for name, context in contexts.items():
        total = Cost()
        for op in found.ops:
            total = total + cost_of(op, found, model, recipe, context)
        result[name] = total
    return result
