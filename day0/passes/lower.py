"""Model -> one lowered Graph per (graph, phase), with an implementation chosen for every op."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from day0.errors import NotSupported
from day0.ir.cache import CacheSpec
from day0.ir.graph import Graph, Model
from day0.ir.op import Op
from day0.ir.recipe import Recipe
from day0.ir.weight import Weight
from day0.passes.choose import Choice, choose
from day0.passes.fuse import fuse
from day0.passes.hold import hold
from day0.passes.launches import launches_of
from day0.passes.layout import layout
from day0.passes.narrow import narrow
from day0.passes.quantise_rows import quantise_rows
from day0.passes.quantize import Precision, quantize
from day0.passes.shard import Place, shard
from day0.passes.state import Held, Pass, State
from day0.passes.streams import streams
from day0.passes.two_phase import two_phase
from day0.registry.family import Shapes
from day0.registry.shapes import shapes_of

PHASES = ("prefill", "decode")
# A verify step has several tokens of every sequence, of which the first few stay.
SPECULATIVE = (*PHASES, "verify")
# In this order; any may be left out. What changes weights or caches comes before what looks at the
# phase, so that both phases share them.
FIRST: Mapping[str, Pass] = {
    "layout": layout,
    "narrow": narrow,
    "two_phase": two_phase,
    "fuse": fuse,
}
# After `hold`, which says which quantised weights lie in memory as codes.
LAST: Mapping[str, Pass] = {"quantise_rows": quantise_rows}
OPTIONAL: Mapping[str, Pass] = {**FIRST, **LAST}
# The last one changes no op: it says which run side by side, by the implementations chosen.
SWITCHES = (*OPTIONAL, "streams")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What to lower for. `backend` "auto" (the best implementation that takes an op) or
    "reference" (the definitions). `references`: family -> "module:function" of the definitions.
    `without`: SWITCHES that are off. `capability`: the GPU's, or None for a CPU. `complete` False:
    ops that nothing runs are no error. `place`: the rank of a mesh that the graph is for."""

    backend: str
    recipe: Recipe
    references: Mapping[str, str]
    without: tuple[str, ...] = ()
    capability: tuple[int, int] | None = None
    complete: bool = True
    place: Place = Place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A graph for one phase with the weights and caches it names, the choice made for every op, by
    op id, the formats that weights, caches and activations run in, by pass the ids of the ops that
    it changed, and what is `held` as codes and scales."""

    graph: Graph
    phase: str
    weights: Mapping[str, Weight]
    caches: Mapping[str, CacheSpec]
    choices: Mapping[str, Choice]
    precision: Precision
    changed: Mapping[str, tuple[str, ...]]
    held: Held = Held()

    def shapes(self, op: Op, recipe: Recipe) -> Shapes:
        """An op of the graph as its family sees it."""
        return shapes_of(op, self.graph, self, recipe)

    def launches(self, recipe: Recipe) -> dict[str, int]:
        """Kernels that every op starts, by op id, as implementations declare it."""
        return {
            op.id: launches_of(op, self.shapes(op, recipe), self.choices[op.id])
            for op in self.graph.ops
        }


def lower(
    model: Model,
    target: Target,
    name: str = "main",
    *,
    phases: tuple[str, ...] = PHASES,
    taps: bool = False,
) -> dict[str, Lowered]:
    """The lowered graphs of `name` by phase, for the logits and with `taps` for what drafts read
    of them beside. NotSupported (exit 4) lists ops nothing runs."""
    canonical = model.graphs[name]
    if not taps:
        canonical = replace(canonical, outputs=canonical.outputs[:1])
    states: dict[str, State] = {}
    changes: dict[str, dict[str, tuple[str, ...]]] = {}
    for phase in phases:
        state = State(
            graph=canonical, weights=model.weights, caches=model.caches, recipe=target.recipe,
            phase=phase,
        )  # fmt: skip
        state, cut = shard(state, target.place)
        state.graph.check()
        states[phase], changed = _passed(state, FIRST, target)
        changes[phase] = {"shard": cut, **changed} if target.place.mesh.size > 1 else changed
    held = hold(states, model, target)
    result = {}
    for phase, state in states.items():
        state, last = _passed(replace(state, held=held), LAST, target)
        changed = {**changes[phase], **last}
        lowered = replace(model, weights=state.weights, caches=state.caches)
        precision = quantize(state.graph, lowered, target.recipe)
        choices = choose(state.graph, lowered, target, phase, held)
        missing = sorted({c.family for c in choices.values() if not c.entry})
        if missing and target.complete:
            raise NotSupported(
                f"no implementation runs {', '.join(missing)} in {phase} "
                f"with --backend {target.backend}",
                hint="day0 scaffold MODEL writes the stubs; --backend reference runs definitions",
            )
        graph = state.graph
        if "streams" not in target.without:
            schedule = streams(graph, lowered, target.recipe, choices, phase)
            graph = replace(graph, schedule=schedule)
            changed["streams"] = tuple(op for lane in schedule.lanes[1:] for op in lane)
        used = {use.cache for op in state.graph.ops for use in op.caches}
        result[phase] = Lowered(
            graph=graph,
            phase=phase,
            weights=state.weights,
            caches={name: cache for name, cache in state.caches.items() if name in used},
            choices=choices,
            precision=precision,
            changed=changed,
            held=held,
        )
    return result


def _passed(
    state: State, passes: Mapping[str, Pass], target: Target
) -> tuple[State, dict[str, tuple[str, ...]]]:
    """The state behind `passes`, and what each of them changed."""
    changed = {}
    for title, apply in passes.items():
        if title not in target.without:
            state, changed[title] = apply(state)
            state.graph.check()
    return state, changed
