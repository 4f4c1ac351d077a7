"""Model -> one lowered Graph per (graph, phase), with an implementation chosen for every op."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from day0.errors import NotSupported
from day0.ir.graph import Graph, Model
from day0.ir.recipe import Recipe
from day0.passes.choose import Choice, choose
from day0.passes.narrow import narrow
from day0.passes.quantize import Precision, quantize

PHASES = ("prefill", "decode")
Pass = Callable[[Graph, str], tuple[Graph, tuple[str, ...]]]
# In this order; each (graph, phase) -> (graph, ids of the ops it changed). They may be left out.
OPTIONAL: Mapping[str, Pass] = {"narrow": narrow}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What to lower for. `backend` "auto" (the best implementation that takes an op) or
    "reference" (the definitions). `references`: family -> "module:function" of the definitions.
    `without`: names of OPTIONAL passes to leave out. `capability`: the GPU's, or None for a CPU."""

    backend: str
    recipe: Recipe
    references: Mapping[str, str]
    without: tuple[str, ...] = ()
    capability: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A graph for one phase, the choice made for every op, by op id, the formats that weights,
    caches and activations run in, and by pass the ids of the ops that it changed."""

    graph: Graph
    phase: str
    choices: Mapping[str, Choice]
    precision: Precision
    changed: Mapping[str, tuple[str, ...]]


def lower(model: Model, target: Target, name: str = "main") -> dict[str, Lowered]:
    """The lowered graphs of `name` by phase, for the logits alone: values that a draft would tap
    are outputs no more. NotSupported (exit 4) lists ops nothing runs."""
    canonical = replace(model.graphs[name], outputs=model.graphs[name].outputs[:1])
    precision = quantize(canonical, model, target.recipe)
    result = {}
    for phase in PHASES:
        graph, changed = canonical, {}
        for title, apply in OPTIONAL.items():
            if title not in target.without:
                graph, changed[title] = apply(graph, phase)
                graph.check()
        choices = choose(graph, model, target, phase)
        missing = sorted({c.family for c in choices.values() if not c.entry})
        if missing:
            raise NotSupported(
                f"no implementation runs {', '.join(missing)} in {phase} "
                f"with --backend {target.backend}",
                hint="day0 scaffold MODEL writes the stubs; --backend reference runs definitions",
            )
        result[phase] = Lowered(
            graph=graph, phase=phase, choices=choices, precision=precision, changed=changed
        )
    return result
