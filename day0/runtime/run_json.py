"""The JSON of `day0 run`, schema day0.run/1: the contract, of which the terminal shows a view."""

import resource
import sys
from collections.abc import Sequence
from typing import Any

import torch

from day0.runtime.api import Loaded
from day0.runtime.metrics import FORMULAS, side_by_side, summary
from day0.runtime.serving import Output, Serving

SCHEMA = "day0.run/1"


def run_json(
    loaded: Loaded,
    serving: Serving,
    *,
    before: Sequence[Output] = (),
    interrupted: bool = False,
) -> dict[str, Any]:
    """What a serving gave. `before`: outputs of an earlier serving of the same process, whose
    first request is the cold one."""
    opened, outputs = loaded.opened, serving.outputs
    timings = [output.timing for output in outputs]
    earlier = [output.timing for output in before]
    peak, peak_of = peak_memory(opened.device)
    return {
        "schema": SCHEMA,
        "model": {
            "id": opened.name,
            "origin": opened.origin,
            "revision": opened.revision,
            "layers": len(opened.model.spec.layers),
        },
        "recipe": opened.recipe.name,
        "backend": opened.backend,
        "device": opened.device,
        "notes": list(opened.notes),
        "interrupted": interrupted,
        "outputs": [
            {
                "prompt": output.prompt,
                "text": output.text,
                "ids": list(output.ids),
                "finish_reason": output.finish_reason,
                "prompt_ids": list(output.prompt_ids),
            }
            for output in outputs
        ],
        "metrics": {
            **summary(timings, duration=serving.duration),
            **side_by_side([*earlier, *timings]),
            "load_s": loaded.load_s,
            # The definitions are plain torch: nothing is compiled or captured.
            "compile_s": 0.0,
            "graph_capture_s": 0.0,
            "jit_compiles_after_ready": 0,
            "peak_memory_bytes": peak,
            "peak_memory_of": peak_of,
        },
        "formulas": FORMULAS,
        "implementations": [
            {"family": family, "impl": impl, "formats": list(formats), "count": count}
            for family, impl, formats, count in loaded.implementations
        ],
    }


def peak_memory(device: str) -> tuple[int | None, str]:
    """Bytes, and of what: torch's allocations on the GPU, or all that the process held."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device), "device"
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kilobytes on Linux, bytes on macOS (getrusage(2) of each).
    return largest * (1 if sys.platform == "darwin" else 1024), "process"
