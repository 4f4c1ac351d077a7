"""The plans `precision` and `quant` as JSON."""

from dataclasses import asdict
from typing import Any

from day0.analysis.analyze import Analysis
from day0.analysis.precision import PrecisionPlan
from day0.analysis.quant_lists import capabilities, exclusions


def quant(analysis: Analysis) -> dict[str, Any]:
    """What the checkpoint is quantised to, and what its lists say."""
    audit, config = analysis.quant, analysis.quant_config
    stored = [row.format for row in audit.stored]
    runs = sorted({analysis.recipe.weight(weight) for weight in analysis.model.weights.values()})
    return {
        "source": analysis.quant_source,
        "method": "" if config is None else config.method,
        "activations": "" if config is None else config.activations,
        "stored": [
            {
                "format": row.format,
                "weights": row.weights,
                "params": row.parameters,
                "bytes": row.bytes,
            }
            for row in audit.stored
        ],
        "coverage": audit.coverage,
        "conflicts": [finding.message for finding in audit.conflicts],
        "exclusions": [
            asdict(one)
            for one in exclusions(analysis.model, config, headers=analysis.headers is not None)
        ],
        "hardware": [
            {"gpu": analysis.machine.gpu.name, **asdict(one)}
            for one in capabilities([*stored, *runs], analysis.machine.gpu)
        ],
    }


def precision(plan: PrecisionPlan) -> dict[str, Any]:
    """What runs in which format."""
    return {
        "recipe": plan.recipe,
        "decided": plan.decided,
        "needed": plan.needed,
        "weight_bytes": {"before": plan.weights_before, "after": plan.weights_after},
        "cache_tokens": plan.tokens,
        "cache_bytes": {"before": plan.caches_before, "after": plan.caches_after},
        "longest": [
            {"batch": batch, "before": before, "after": plan.longest_after[batch]}
            for batch, before in plan.longest_before.items()
        ],
        "rows": [{**asdict(line), "families": list(line.families)} for line in plan.lines],
    }
