"""The least time a step can take: every byte it touches once, or its operations, at full rate."""

from day0.ir.recipe import Recipe
from day0.passes.lower import Lowered
from day0.registry.cost import cost
from day0.registry.family import Context
from day0.registry.rates import H200, Rates


def floor_s(
    low: Lowered, recipe: Recipe, context: Context, rates: Rates = H200, *, shared: int = 1
) -> float:
    """Seconds of one step of `context.rows` rows: for each op the larger of its bytes (weights that
    any row touches, and cache entries, which `shared` rows of a sequence read once; values between
    ops are free) and its operations, by the rates measured on the GPU."""
    known: dict[object, float] = {}
    total = 0.0
    for op in low.graph.ops:
        shapes = low.shapes(op, recipe)
        key = (
            op.family, op.attrs, tuple(shapes.weights.items()), tuple(shapes.caches.items()),
            tuple(shapes.inputs.items()),
        )  # fmt: skip
        if key not in known:
            own = context.of_rows(shapes.lead)
            spent = cost(family_name=op.family, shapes=shapes, context=own)
            moved = spent.weight_bytes + own.rows / shared * spent.cache_bytes
            narrow = any(spec.format.startswith("fp8") for spec in shapes.weights.values())
            rate = rates.flops["fp8" if narrow else ""]
            known[key] = max(moved / rates.bytes, own.rows * spent.flops / rate)
        total += known[key]
    return total
