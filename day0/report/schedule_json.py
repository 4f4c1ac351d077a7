"""The scheduling plan as the JSON key `schedule`, and what the passes matched as `passes`."""

from typing import Any

from day0.analysis.analyze import Analysis
from day0.analysis.lowering import lowered_for, passes
from day0.analysis.schedule import Block, Phase, Schedule, schedule


def lowering_json(analysis: Analysis) -> dict[str, Any]:
    """{"passes": ..., "schedule": ...}, of the graphs as they are lowered for the GPU."""
    lowered = lowered_for(analysis.model, analysis.recipe, analysis.machine.gpu.capability)
    return {
        "passes": passes(lowered),
        "schedule": schedule_json(schedule(analysis.model, analysis.recipe, lowered)),
    }


def schedule_json(plan: Schedule) -> dict[str, Any]:
    """Plain data; times in microseconds."""
    return {
        "phases": [_phase(phase) for phase in plan.phases],
        "blocks": [_block(phase.phase, block) for phase in plan.phases for block in phase.blocks],
        "warm_up": [
            {
                "phase": one.phase,
                "family": one.family,
                "impl": one.entry,
                "sizes": one.sizes,
                "ops": len(one.ops),
                "first": one.ops[0],
            }
            for one in plan.warm_up
        ],
        "decode_sizes": list(plan.decode_sizes),
        "prefill_rows": list(plan.prefill_rows),
        "communication": list(plan.communication),
    }


def _phase(phase: Phase) -> dict[str, Any]:
    return {
        "phase": phase.phase,
        "captured": phase.captured,
        "because": list(phase.because),
        "lanes": phase.num_lanes,
        "waits": phase.num_waits,
        "launches": phase.launches,
        "serial_us": _us(phase.serial_s),
        "scheduled_us": _us(phase.scheduled_s),
        "critical_us": _us(phase.critical_s),
    }


def _block(phase: str, block: Block) -> dict[str, Any]:
    return {
        "phase": phase,
        "block": block.name,
        "layers": list(block.layers),
        "ops": block.num_ops,
        "launches": block.launches,
        "serial_us": _us(block.serial_s),
        "scheduled_us": _us(block.scheduled_s),
        "critical_us": _us(block.critical_s),
        "groups": [
            {
                "lanes": [list(lane) for lane in group.lanes],
                "serial_us": _us(group.serial_s),
                "scheduled_us": _us(group.scheduled_s),
            }
            for group in block.groups
        ],
    }


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 2)
