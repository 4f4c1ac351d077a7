"""Two models side by side: what `day0 diff A B` tells."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from day0.analysis.analyze import Analysis
from day0.analysis.compare import Difference, compare
from day0.catalog.features import features
from day0.ir.graph import Graph
from day0.ir.tensor import TensorSpec

SCHEMA = "day0.diff/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """`difference`: what A has instead of what B has. `figures`: name -> (A's, B's).
    `operators`: (verdict, family, what of it) that only A or only B has. `same_graph`: their
    graphs are equal in every operator, value and weight shape: all that is executed is the same."""

    difference: Difference
    figures: Mapping[str, tuple[Any, Any]]
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]
    same_graph: bool

    @property
    def identical(self) -> bool:
        """In meaning and in sizes; stored forms, names and bytes may differ."""
        told = self.difference
        return self.same_graph and not (told.meaning or told.constants or told.sizes)


def diff(here: Analysis, there: Analysis) -> Diff:
    """A against B."""
    ours, theirs = _operators(here), _operators(there)
    return Diff(
        difference=compare(features(here.spec), features(there.spec)),
        figures={name: (mine, _figures(there)[name]) for name, mine in _figures(here).items()},
        only_here=tuple(text for text in ours if text not in theirs),
        only_there=tuple(text for text in theirs if text not in ours),
        same_graph=_shape(here) == _shape(there),
    )


def to_json(found: Diff, here: Analysis, there: Analysis) -> dict[str, Any]:
    """Plain data of schema day0.diff/1."""
    told = found.difference
    return {
        "schema": SCHEMA,
        "a": {"id": here.id, "revision": here.revision},
        "b": {"id": there.id, "revision": there.revision},
        "identical": found.identical,
        "same_graph": found.same_graph,
        "distance": told.distance,
        "differences": list(told.meaning),
        "constants": list(told.constants),
        "sizes": list(told.sizes),
        "stored": list(told.stored),
        "figures": {name: {"a": a, "b": b} for name, (a, b) in found.figures.items()},
        "operators": {"only_a": list(found.only_here), "only_b": list(found.only_there)},
    }


def _figures(analysis: Analysis) -> dict[str, Any]:
    caches = analysis.cache_totals
    return {
        "params_total": analysis.params.total,
        "params_active": analysis.params.active,
        "checkpoint_bytes": analysis.bytes.checkpoint,
        "quantised_percent": round(analysis.quant.coverage, 2),
        "kv_bytes_per_token": caches.kv_bytes_per_token,
        "index_bytes_per_token": caches.index_bytes_per_token,
        "state_bytes_per_sequence": caches.state_bytes_per_sequence,
        "window_bytes_per_sequence": caches.window_bytes_per_sequence,
        "flops_per_token": analysis.costs["decode_4k"].flops,
        "context_length": analysis.spec.context_length,
    }


def _operators(analysis: Analysis) -> dict[str, None]:
    """Distinct operators by family and attributes, sizes of values and weights aside."""
    found: dict[str, None] = {}
    for entry in analysis.entries:
        attrs = " ".join(f"{name}={value}" for name, value in entry.attrs)
        found[f"{entry.family} {attrs}".strip()] = None
    return found


def _shape(analysis: Analysis) -> dict[str, Any]:
    """What the graphs compute, without the formats in which weights are stored and without the
    facts that say why."""
    model = analysis.model
    weights = {name: weight.spec.dims for name, weight in model.weights.items()}
    return {
        "graphs": {name: _graph(graph) for name, graph in model.graphs.items()},
        "weights": weights,
        "caches": {name: (c.growth, c.every, c.span, c.elements) for name, c in
                   model.caches.items()},
    }  # fmt: skip


def _graph(graph: Graph) -> tuple[Any, ...]:
    ops = [
        (op.id, op.family, op.inputs, op.outputs, op.weights, op.caches, op.attrs)
        for op in graph.ops
    ]
    values: Mapping[str, TensorSpec] = graph.values
    return graph.inputs, graph.outputs, ops, {name: spec.dims for name, spec in values.items()}
