"""The plans `memory` and `cost` as JSON."""

from typing import Any

from day0.analysis.memory import Fits, MemoryPlan
from day0.analysis.roofline import CostPlan, Step


def fits(plan: MemoryPlan) -> dict[str, Any]:
    """What stands under memory.fits."""
    return {
        "gpu": plan.machine.gpu.name,
        "num_gpus": plan.machine.count,
        "room_bytes": plan.room,
        "workspace_bytes": plan.workspace,
        "host_bytes": plan.host_bytes,
        "equal_block_tokens": plan.equal_block,
        "ways": [_way(way) for way in plan.ways],
    }


def _way(way: Fits) -> dict[str, Any]:
    return {
        "weights": way.held_as,
        "weight_bytes": way.weights,
        "gpus_needed": way.gpus,
        "cells": [
            {
                "tokens": cell.tokens,
                "batch": cell.batch,
                "cache_bytes": cell.cache_bytes,
                "bytes": cell.bytes,
                "fits": cell.fits,
            }
            for cell in way.cells
        ],
        "longest": [{"batch": batch, "tokens": tokens} for batch, tokens in way.longest.items()],
    }


def roofline(plan: CostPlan) -> dict[str, Any]:
    """What stands under cost.roofline."""
    return {
        "gpu": plan.machine.gpu.name,
        "num_gpus": plan.machine.count,
        "source": plan.machine.gpu.source,
        "steps": [_step(step) for step in plan.steps],
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "phase": step.phase,
        "length": step.length,
        "rows": step.rows,
        "seconds": step.seconds,
        "floor_seconds": step.floor,
        "ops": [
            {
                "family": line.family,
                "count": line.count,
                "inventory": list(line.entries),
                "flops": line.flops,
                "weight_bytes": line.weight_bytes,
                "cache_bytes": line.cache_bytes,
                "value_bytes": line.value_bytes,
                "seconds": line.seconds,
                "share": line.share,
                "bound": line.bound,
            }
            for line in step.lines
        ],
    }
