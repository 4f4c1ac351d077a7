"""The JSON of `day0 run`, schema day0.run/1: the contract, of which the terminal shows a view."""

import os
import resource
import sys
from collections.abc import Sequence
from dataclasses import asdict
from statistics import mean, median
from typing import Any

import torch

from day0.passes.lower import Lowered
from day0.runtime.api import Loaded
from day0.runtime.expert_load import ExpertLoad
from day0.runtime.kernel_cache import COMPILES, FOLDER
from day0.runtime.metrics import FORMULAS, side_by_side, summary
from day0.runtime.serving import Output, Serving
from day0.runtime.step_costs import (
    decode_floor_ms,
    definitions,
    launches_by_kind,
    per_layer,
    planned,
)

SCHEMA = "day0.run/1"


def run_json(
    loaded: Loaded,
    serving: Serving,
    *,
    before: Sequence[Output] = (),
    interrupted: bool = False,
    expert_load: ExpertLoad | None = None,
) -> dict[str, Any]:
    """What a serving gave. `before`: outputs of an earlier serving of the same process, whose
    first request is the cold one; `expert_load`: what was counted meanwhile."""
    opened, outputs = loaded.opened, serving.outputs
    timings = [output.timing for output in outputs]
    earlier = [output.timing for output in before]
    low, of = planned(opened)
    kinds = launches_by_kind(low, opened.model.spec, opened.recipe)
    figures = summary(timings, duration=serving.duration)
    floor = _floor(low, loaded, serving)
    peak, peak_of = peak_memory(opened.device)
    return {
        **_head(loaded),
        "interrupted": interrupted,
        "warnings": [serving.tally.warning] if serving.tally and serving.tally.warning else [],
        "expert_load": expert_load and expert_load.rows(opened.place.mesh),
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
            **figures,
            **side_by_side([*earlier, *timings]),
            **speculation(loaded, serving),
            **serving.reuse,
            "load_s": loaded.load_s,
            "compile_s": loaded.prepared.compile_s,
            "graph_capture_s": loaded.prepared.graph_capture_s,
            "jit_compiles_after_ready": COMPILES.after_ready,
            "launches_per_layer": per_layer(kinds),
            "decode_floor_ms": floor,
            "decode_floor_share": _share(floor, figures["median_tpot_ms"], of),
            "peak_memory_bytes": peak,
            "peak_memory_of": peak_of,
        },
        "launches": {
            "of": of,
            "step": sum(low.launches(opened.recipe).values()),
            "definitions": definitions(low),
            "by_layer_kind": [asdict(kind) for kind in kinds],
        },
        "prepared": prepared_json(loaded),
        "formulas": FORMULAS,
        "implementations": [
            {"family": family, "impl": impl, "formats": list(formats), "count": count}
            for family, impl, formats, count in loaded.implementations
        ],
    }


def prepare_json(loaded: Loaded) -> dict[str, Any]:
    """What `day0 run --prepare` did."""
    return {**_head(loaded), "load_s": loaded.load_s, "prepared": prepared_json(loaded)}


def prepared_json(loaded: Loaded) -> dict[str, Any]:
    """Steps run on padding, specialisations compiled and loaded, seconds, and where they lie."""
    return {**asdict(loaded.prepared), "kernel_cache": os.environ.get(FOLDER)}


def _floor(low: Lowered, loaded: Loaded, serving: Serving, each: int = 1) -> float | None:
    """Of the serving's mean decode step, or verify step of `each` rows a sequence; None where it
    had none."""
    rows = [rows for phase, rows in serving.steps if phase == low.phase]
    lengths = [len(o.prompt_ids) + len(o.ids) / 2 for o in serving.outputs]
    if not rows or not lengths:
        return None
    recipe = loaded.opened.recipe
    return decode_floor_ms(low, recipe, rows=mean(rows), length=mean(lengths), each=each)


def _share(floor: float | None, tpot: object, of: str) -> float | None:
    """The floor's share of what a step took: of a GPU alone, whose floor it is."""
    if floor is None or not isinstance(tpot, float) or not tpot or not of.startswith("cuda"):
        return None
    return floor / tpot


def _head(loaded: Loaded) -> dict[str, Any]:
    opened = loaded.opened
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
        "mesh": _mesh(loaded),
        "notes": list(opened.notes),
        "speculation": None
        if opened.drafting is None
        else {
            "source": opened.drafting.source,
            "draft_tokens": opened.drafting.tokens,
            "state": "replay" if loaded.session.limits.replay else "versions",
        },
    }


def speculation(loaded: Loaded, serving: Serving) -> dict[str, Any]:
    """What drafts gave, and what a step took and could take; nothing without drafts."""
    if serving.tally is None:
        return {}
    times = {
        f"median_{phase}_step_ms": median(serving.step_s[phase]) * 1e3
        if phase in serving.step_s
        else None
        for phase in ("verify", "decode")
    }
    low, of = planned(loaded.opened, "verify")
    floor = _floor(low, loaded, serving, loaded.session.limits.rows)
    share = _share(floor, times["median_verify_step_ms"], of)
    return {
        **times,
        "verify_floor_ms": floor,
        "verify_floor_share": share,
        **serving.tally.figures(),
    }


def _mesh(loaded: Loaded) -> dict[str, Any] | None:
    """The mesh and this rank of it, with the bytes that it read of the checkpoint; None alone."""
    place = loaded.opened.place
    if loaded.opened.ranks is None:
        return None
    read = loaded.session.read_bytes
    return {"name": place.mesh.name, "rank": place.rank, "read_bytes": read}


def peak_memory(device: str) -> tuple[int | None, str]:
    """Bytes, and of what: torch's allocations on the GPU, or all that the process held."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device), "device"
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kilobytes on Linux, bytes on macOS (getrusage(2) of each).
    return largest * (1 if sys.platform == "darwin" else 1024), "process"
