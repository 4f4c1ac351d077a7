"""Analysis -> the JSON of schema day0.analysis/1 (DESIGN section 5)."""

from collections.abc import Sequence
from typing import Any

from day0.analysis import caches
from day0.analysis.analyze import Analysis
from day0.analysis.checklist import answered
from day0.analysis.cost import Cost
from day0.analysis.inventory import Entry
from day0.analysis.layers import layer_view
from day0.analysis.memory import memory
from day0.analysis.nearest import nearest
from day0.analysis.nearest import rows as nearest_rows
from day0.analysis.parallel.plan import plan_of
from day0.analysis.precision import precision
from day0.analysis.proof import Proof
from day0.analysis.roofline import roofline
from day0.ir.fact import Fact, Finding
from day0.ir.graph import Graph
from day0.ir.op import Op
from day0.ir.tensor import TensorSpec
from day0.report import costs_json, quant_json
from day0.report.parallel_json import parallel
from day0.report.schedule_json import lowering_json
from day0.report.schema import ANALYSIS_SCHEMA

PLOTTED = 131_072  # tokens, where a model states no context length


def to_json(analysis: Analysis) -> dict[str, Any]:
    """Plain data, ready for json.dump. The checklist is answered from the rest."""
    data = _parts(analysis)
    return {**data, "checklist": answered(data).rows()}


def _parts(analysis: Analysis) -> dict[str, Any]:
    spec, model = analysis.spec, analysis.model
    return {
        "schema": ANALYSIS_SCHEMA,
        "model": {
            "id": analysis.id,
            "name": spec.name,
            "revision": analysis.revision,
            "origin": analysis.origin,
            "architectures": list(spec.architectures),
            "model_type": spec.model_type,
            "dtype": spec.dtype,
            "context_length": spec.context_length,
            "vocab_size": spec.vocab_size,
            "hidden_size": spec.shape.hidden_size,
            "num_layers": len(spec.layers),
        },
        "params": {
            "total": analysis.params.total,
            "trunk": analysis.params.trunk,
            "drafts": analysis.params.drafts,
            "opaque": analysis.params.opaque,
            "active": analysis.params.active,
            "embedding": analysis.params.embedding,
            "lookup": analysis.params.lookup,
            "by_role": dict(analysis.params.by_role),
        },
        "bytes": {
            "checkpoint": analysis.bytes.checkpoint,
            "by_format": dict(analysis.bytes.by_format),
        },
        "layers": [
            layer_view(index, layer, analysis.spec.residual.stem)
            for index, layer in enumerate(spec.layers)
        ],
        "graph": _graph(model.graphs["main"], _numbers(analysis.entries)),
        "drafts": {
            name: _graph(graph, {}) for name, graph in model.graphs.items() if name != "main"
        },
        "speculation": {
            "mtp_declared": analysis.mtp.declared,
            "mtp_shipped": analysis.mtp.shipped,
            "mtp_executable": len(model.graphs) - 1,
            "bytes_per_draft_token": caches.version_bytes(model, analysis.recipe),
        },
        "inventory": [_entry(entry) for entry in analysis.entries],
        "new_fraction": {
            "ops": analysis.new_fraction.ops,
            "params": analysis.new_fraction.params,
            "flops": analysis.new_fraction.flops,
            "bytes": analysis.new_fraction.bytes,
        },
        "caches": caches.rows(model, analysis.recipe),
        "kv_bytes_per_token": analysis.cache_totals.kv_bytes_per_token,
        "index_bytes_per_token": analysis.cache_totals.index_bytes_per_token,
        "state_bytes_per_sequence": analysis.cache_totals.state_bytes_per_sequence,
        "window_bytes_per_sequence": analysis.cache_totals.window_bytes_per_sequence,
        "state_checkpoint": caches.checkpoint(analysis.cache_totals),
        "memory": {
            "sequence": caches.curve(model, analysis.recipe),
            "growth": caches.growth(model, analysis.recipe, spec.context_length or PLOTTED),
            "fits": costs_json.fits(
                memory(model, analysis.recipe, analysis.machine, context=spec.context_length)
            ),
        },
        "proof": _proof(analysis.proof),
        "semantics": {
            "settled": analysis.settled,
            "assumed": [_fact(fact) for fact in analysis.assumed],
        },
        "facts": [_fact(fact) for fact in model.facts.values()],
        "groups": [
            {
                "name": group.name,
                "role": group.role,
                "tensors": len(group.tensors),
                "params": group.params,
                "bytes": group.bytes,
            }
            for group in model.groups
        ],
        "config": {"unread_keys": list(analysis.unread_keys)},
        "quant": quant_json.quant(analysis),
        "precision": quant_json.precision(
            precision(model, analysis.recipe, analysis.machine, context=spec.context_length)
        ),
        "recipe": analysis.recipe.name,
        "nearest": nearest_rows(nearest(spec, id=analysis.id)),
        "parallel": parallel(plan_of(analysis)),
        **lowering_json(analysis),
        "cost": {
            **{name: _cost(cost) for name, cost in analysis.costs.items()},
            "roofline": costs_json.roofline(roofline(model, analysis.entries, analysis.machine)),
        },
        "findings": [_finding(finding) for finding in analysis.findings],
        "read": list(analysis.read),
    }


def _numbers(entries: Sequence[Entry]) -> dict[str, int]:
    """Op id -> row of the inventory."""
    return {name: number for number, entry in enumerate(entries) for name in entry.ops}


def _graph(graph: Graph, numbers: dict[str, int]) -> dict[str, Any]:
    """`numbers`: rows of the inventory, which judges the main graph's ops only."""
    return {
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "ops": [{**_op(op), "inventory": numbers.get(op.id)} for op in graph.ops],
        "values": {name: _spec(spec) for name, spec in graph.values.items()},
    }


def _op(op: Op) -> dict[str, Any]:
    return {
        "id": op.id,
        "family": op.family,
        "layer": op.layer,
        "inputs": dict(op.inputs),
        "outputs": dict(op.outputs),
        "attrs": _plain(dict(op.attrs)),
        "weights": dict(op.weights),
        "caches": [{"slot": use.slot, "cache": use.cache, "mode": use.mode} for use in op.caches],
        "because": list(op.because),
    }


def _spec(spec: TensorSpec) -> dict[str, Any]:
    return {"dims": list(spec.dims), "format": spec.format}


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "family": entry.family,
        "count": entry.count,
        "layers": list(entry.layers),
        "attrs": _plain(dict(entry.attrs)),
        "weights": {slot: _spec(spec) for slot, spec in entry.shapes.weights.items()},
        "inputs": {slot: _spec(spec) for slot, spec in entry.shapes.inputs.items()},
        "verdict": entry.verdict.status,
        "impl": entry.verdict.impl,
        "reasons": list(entry.verdict.reasons),
        "params": entry.params,
        "flops_per_token": entry.decode.flops,
        "bytes_per_token": entry.decode.bytes,
        "prefill_flops_per_token": entry.prefill.flops,
        "because": list(entry.because),
    }


def _proof(proof: Proof) -> dict[str, Any]:
    return {
        "status": proof.status,
        "expected": proof.expected,
        "matched": proof.matched,
        "missing": list(proof.missing),
        "unexpected": list(proof.unexpected),
        "shape": list(proof.shape),
        "dtype": list(proof.dtype),
        "unexplained_bytes": proof.unexplained_bytes,
        "opaque_bytes": proof.opaque_bytes,
    }


def _fact(fact: Fact) -> dict[str, Any]:
    return {
        "path": fact.path,
        "value": _plain(fact.value),
        "how": fact.how,
        "source": fact.source,
        "decisive": fact.decisive,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "evidence": list(finding.evidence),
    }


def _cost(cost: Cost) -> dict[str, float]:
    return {
        "flops_per_token": cost.flops,
        "weight_bytes_per_token": cost.weight_bytes,
        "cache_bytes_per_token": cost.cache_bytes,
    }


def _plain(value: Any) -> Any:
    """Tuples as lists; non-finite floats as the words that JSON has no number for."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, str) or not isinstance(value, Sequence):
        if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
            return str(value)
        return value
    return [_plain(item) for item in value]
