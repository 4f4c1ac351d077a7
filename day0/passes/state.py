"""What a pass reads and gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from day0.ir.cache import CacheSpec
from day0.ir.graph import Graph
from day0.ir.op import Op
from day0.ir.recipe import Recipe
from day0.ir.weight import Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Names of the quantised weights and caches that lie in memory as codes and scales; the other
    quantised ones are emulated: rounded values in a wide format."""

    weights: frozenset[str] = frozenset()
    caches: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One graph on its way to one phase, with the weights and caches it names. What both phases
    share, they must rewrite alike: a pass may look at the phase only where it leaves weights and
    caches as they are. `held` is known to the passes after `hold`."""

    graph: Graph
    weights: Mapping[str, Weight]
    caches: Mapping[str, CacheSpec]
    recipe: Recipe
    phase: str
    held: Held = Held()

    def rewritten(self, ops: tuple[Op, ...], **added: Mapping) -> "State":
        """With other ops, and `values`, `weights` or `caches` beside the present ones; values that
        no op names any more are gone."""
        values = {**self.graph.values, **added.get("values", {})}
        named = {value for op in ops for _, value in (*op.inputs, *op.outputs)}
        kept = {n: spec for n, spec in values.items() if n in named or n in self.graph.inputs}
        return replace(
            self,
            graph=replace(self.graph, ops=ops, values=kept),
            weights={**self.weights, **added.get("weights", {})},
            caches={**self.caches, **added.get("caches", {})},
        )


# State -> (State, ids of the ops it changed or made)
Pass = Callable[[State], tuple[State, tuple[str, ...]]]
