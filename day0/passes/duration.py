"""How long an op is expected to take: what it cannot share with others, and what it can."""

from collections.abc import Mapping
from dataclasses import dataclass

from day0.ir.graph import Graph
from day0.ir.op import Op
from day0.ir.recipe import Recipe
from day0.passes.choose import Choice
from day0.passes.launches import launches_of
from day0.registry.cost import cost, stored_bytes
from day0.registry.family import Context, Shapes
from day0.registry.rates import Efficiency, Rates
from day0.registry.shapes import Named, shapes_of

# One sequence decoding at a usual length: launches rule, and that is where lanes help. The same
# with three drafts. A prompt that fills the device.
CONTEXTS = {
    "decode": Context(phase="decode", length=4096, rows=1),
    "verify": Context(phase="decode", length=4096, rows=4),
    "prefill": Context(phase="prefill", length=8192, rows=8192),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """Seconds: `latency` of an op's launches, which another op's may hide, and `work`, its share
    of the device's bytes or operations, which it takes from any other op."""

    latency: float
    work: float

    @property
    def total(self) -> float:
        return self.latency + self.work


def durations(
    graph: Graph,
    model: Named,
    recipe: Recipe,
    choices: Mapping[str, Choice],
    context: Context,
    rates: Rates,
) -> tuple[Duration, ...]:
    """Of every op in program order, by the roofline of its family's flops and bytes."""
    known: dict[tuple[object, ...], Duration] = {}
    result = []
    for op in graph.ops:
        shapes = shapes_of(op, graph, model, recipe)
        choice = choices[op.id]
        key = (
            op.family, op.attrs, tuple(shapes.inputs.items()), tuple(shapes.weights.items()),
            tuple(shapes.caches.items()), choice.entry,
        )  # fmt: skip
        if key not in known:
            known[key] = _one(op, shapes, choice, graph, context, rates)
        result.append(known[key])
    return tuple(result)


def _one(
    op: Op, shapes: Shapes, choice: Choice, graph: Graph, context: Context, rates: Rates
) -> Duration:
    context = context.of_rows(shapes.lead)
    spent = cost(family_name=op.family, shapes=shapes, context=context)
    values = [graph.values[value] for _, value in (*op.inputs, *op.outputs)]
    moved = sum(stored_bytes(spec.format, spec.dims) for spec in values)
    # rows of a prompt share what they read: twice what its average row sees is all of it
    shared = context.phase == "prefill"
    reads = 2 * context.rows / context.length if shared else context.rows
    bytes_moved = spent.weight_bytes + reads * spent.cache_bytes + context.rows * moved
    narrow = any(spec.format.startswith("fp8") for spec in shapes.weights.values())
    kind = "fp8" if narrow else ""
    floor = max(bytes_moved / rates.bytes, context.rows * spent.flops / rates.flops[kind])
    found = _measured(op, shapes, choice, context, rates)
    launches = rates.launch_s * launches_of(op, shapes, choice)
    if found is None:
        return Duration(latency=launches, work=floor)
    return Duration(latency=found.overhead_s or launches, work=floor / found.share)


def _measured(
    op: Op, shapes: Shapes, choice: Choice, context: Context, rates: Rates
) -> Efficiency | None:
    """What benches found of this family here, with narrow weights or caches where they timed them.
    A definition is nobody's kernel: nothing was measured of it."""
    if choice.backend not in ("triton", "library"):
        return None
    stored = (*shapes.weights.values(), *(spec for one in shapes.caches.values() for spec in one))
    kinds = ("fp8", "") if any(spec.format.startswith("fp8") for spec in stored) else ("",)
    keys = ((op.family, context.phase, kind) for kind in kinds)
    return next((rates.families[key] for key in keys if key in rates.families), None)
