"""Model -> one lowered Graph per (graph, phase), with an implementation chosen for every op."""

from collections.abc import Mapping
from dataclasses import dataclass

from day0.errors import NotSupported
from day0.ir.graph import Graph, Model
from day0.ir.recipe import Recipe
from day0.passes.choose import Choice, choose
from day0.passes.quantize import Precision, quantize

PHASES = ("prefill", "decode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What to lower for. `backend` "auto" (the best implementation that takes an op) or
    "reference" (the definitions). `references`: family -> "module:function" of the definitions.
    `capability`: the GPU's, or None for a CPU."""

    backend: str
    recipe: Recipe
    references: Mapping[str, str]
    capability: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A graph for one phase, the choice made for every op, by op id, and the formats that weights,
    caches and activations run in."""

    graph: Graph
    phase: str
    choices: Mapping[str, Choice]
    precision: Precision


def lower(model: Model, target: Target, name: str = "main") -> dict[str, Lowered]:
    """The lowered graphs of `name` by phase; NotSupported (exit 4) lists ops nothing runs."""
    graph = model.graphs[name]
    precision = quantize(graph, model, target.recipe)
    result = {}
    for phase in PHASES:
        choices = choose(graph, model, target, phase)
        missing = sorted({c.family for c in choices.values() if not c.entry})
        if missing:
            raise NotSupported(
                f"no implementation runs {', '.join(missing)} in {phase} "
                f"with --backend {target.backend}",
                hint="day0 scaffold MODEL writes the stubs; --backend reference runs definitions",
            )
        result[phase] = Lowered(graph=graph, phase=phase, choices=choices, precision=precision)
    return result
