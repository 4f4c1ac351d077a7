"""The parallel plan as the JSON has it: bytes, milliseconds, names of meshes."""

from dataclasses import asdict
from typing import Any

from day0.analysis.parallel.plan import Choice, ParallelPlan


def parallel(plan: ParallelPlan) -> dict[str, Any]:
    """Plain data. A mesh is called as --mesh spells it."""
    gpu = plan.machine.gpu
    return {
        "gpu": gpu.name,
        "num_gpus": plan.machine.count,
        "stated": plan.machine.stated,
        "gpu_memory_bytes": gpu.memory,
        "usable_bytes": plan.machine.usable,
        "gpu_source": gpu.source,
        "assumed": asdict(plan.assumed),
        "checkpoint_bytes": plan.checkpoint_bytes,
        "checkpoint_in_one_gpu": plan.one_holds,
        "checkpoint_in_all_gpus": plan.all_hold,
        "unknown_ops": plan.unknown,
        "fits": plan.fits,
        "gpus_needed": plan.needed,
        "recommended": {"latency": plan.latency or None, "throughput": plan.throughput or None},
        "tensor_parallel": [
            {
                "formats": degrees.formats,
                "legal": list(degrees.legal),
                "illegal": [
                    {"degree": degree, "reasons": list(reasons)}
                    for degree, reasons in degrees.illegal
                ],
            }
            for degrees in plan.degrees
        ],
        "legal": [_choice(choice) for choice in plan.choices],
        "illegal": [
            {"meshes": list(group.meshes), "reasons": list(group.reasons)} for group in plan.illegal
        ],
        "sequence": {
            "unit_tokens": plan.sequence.unit,
            "balance": [asdict(row) for row in plan.sequence.balance],
            "state_passing": [asdict(row) for row in plan.sequence.passing],
        },
    }


def _choice(choice: Choice) -> dict[str, Any]:
    mesh, memory, times = choice.mesh, choice.memory, choice.times
    return {
        "mesh": mesh.name,
        "tp": mesh.tp,
        "ep": mesh.ep,
        "cp": mesh.cp,
        "pp": mesh.pp,
        "replicas": mesh.replicas,
        "fits": choice.fits,
        "memory": {
            "weights_bytes": memory.weights,
            "aside_bytes": memory.aside,
            "caches_bytes": memory.caches,
            "activations_bytes": memory.activations,
            "bank_bytes": memory.bank,
            "workspace_bytes": memory.workspace,
            "total_bytes": memory.total,
        },
        "sequences": choice.sequences,
        "sent": {
            phase: {
                **{f"{axis}_bytes": getattr(sent, axis) for axis in ("tp", "ep", "cp", "pp")},
                "per_layer_bytes": sent.per_layer,
            }
            for phase, sent in (("prefill", choice.prefill), ("decode", choice.decode))
        },
        "predicted": None
        if times is None
        else {
            "ttft_ms": 1e3 * times.ttft,
            "tpot_ms": 1e3 * times.tpot,
            "batch": times.batch,
            "batch_tpot_ms": 1e3 * times.tpot_batch,
            "tokens_per_second": times.tokens_per_second,
        },
        "fallback": list(choice.fallback),
    }
