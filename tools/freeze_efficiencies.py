"""Write day0/analysis/efficiencies.yaml from the kernels' benches and the recorded whole model.

    PYTHONPATH=.:kernels python tools/freeze_efficiencies.py

Of a family in a phase: the overhead is what its smallest case takes beyond its floor (0: none is
small enough), the share the median of floor / (time - overhead) over the larger ones. Decode takes
times inside a CUDA graph. What a step costs besides its kernels is fitted to the recorded batches
FITTED and to one prompt of PROMPT tokens; other rows are held out
(tests/analysis/test_efficiencies.py).
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean, median
from typing import Any

import yaml

from day0.analysis.efficiencies import STEP, TABLE, kernels_s, read
from day0.analysis.lowering import lowered_for
from day0.catalog.entry import entry_called, model_of
from day0.ir.recipe import RECIPES
from day0.registry.family import Context

RESULTS = Path(__file__).parent.parent / "kernels" / "bench_results"
WHOLE = "kimi_linear_model.json"
FITTED = (1, 32)
PROMPT, NEW = 1024, 33  # tokens of the recorded decode rows: tools/time_model.py
# Bench and the beginning of its cases -> families whose kernels they time; the first that fits.
# What times a part of an operator has no family.
CASES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("experts", "kimi-bf16-experts-", ("experts",)),
    ("experts", "kimi-fp8-experts-", ("experts",)),
    ("kda", "fused-", ("kda_step",)),
    ("kda", "", ("kda",)),
    ("rmsnorm", "add-", ("add_rmsnorm",)),
    ("rmsnorm", "", ("rmsnorm",)),
    ("fp8_gemm", "", ("linear", "merged_linear")),
    ("moe_route", "route-T", ("moe_route",)),
    ("hyper_connection", "pre-", ("hyper_gate",)),
    ("hyper_connection", "post-", ("hyper_write",)),
    ("quant", "tile-", ("quant",)),
    ("short_conv", "", ("short_conv", "merged_short_conv")),
    *((name, "", (name,)) for name in (
        "attn_residual", "gated_rmsnorm", "gdn", "gqa", "indexer", "mla", "sparse_mla",
    )),
)  # fmt: skip
# Microseconds: a case with a smaller floor that takes so little beyond it says what a call costs by
# itself; where none does the launches that are declared stand for it.
SMALL, OVERHEAD = 30.0, 20.0
NARROW_ALONE = {"fp8_gemm"}


def families_of(op: str, case: str) -> tuple[str, ...]:
    return next((names for of, start, names in CASES if of == op and case.startswith(start)), ())


def fitted(cases: list[tuple[float, float]]) -> dict[str, float]:
    """{"share", "overhead_us"} of (microseconds, floor) pairs."""
    small = [(floor, us - floor) for us, floor in cases if floor < SMALL and us - floor < OVERHEAD]
    overhead = max(min(small)[1], 0.0) if small else 0.0
    large = [floor / (us - overhead) for us, floor in cases if us > 2 * overhead and floor >= 1.0]
    return {
        "share": round(median(large), 3) if large else 1.0,
        "overhead_us": round(overhead, 2),
    }


def benches(paths: Iterable[Path]) -> tuple[dict[str, Any], list[str]]:
    """By "family phase" or "family phase fp8" what was found, and the dates of the benches."""
    groups: dict[str, list[tuple[float, float]]] = {}
    sources: dict[str, list[str]] = {}
    dates = []
    for path in sorted(paths):
        data = json.loads(path.read_text(encoding="utf-8"))
        if "rows" not in data:
            continue
        op = data["head"]["op"]
        dates.append(data["head"].get("date", ""))
        for row in data["rows"]:
            if row["impl"] != "day0":
                continue
            narrow = " fp8" if op in NARROW_ALONE or "fp8" in row["case"] else ""
            phase = "decode" if "graph_us" in row else "prefill"
            for name in families_of(op, row["case"]):
                key = f"{name} {phase}{narrow}"
                groups.setdefault(key, []).append((row.get("graph_us", row["us"]), row["floor_us"]))
                sources.setdefault(key, []).append(row["case"])
    found = {
        key: {**fitted(cases), "cases": sorted(set(sources[key]))} for key, cases in groups.items()
    }
    return dict(sorted(found.items())), sorted(filter(None, dates))


def step_of(whole: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, float]:
    """Microseconds beyond the kernels': between two launches of a captured decode step, of the host
    once a step and for each sequence, and between two launches of a prompt's step."""
    name = whole["model"].removeprefix("catalog:")
    recipe, bare = RECIPES[whole["recipe"]], read(data)
    lowered = lowered_for(model_of(entry_called(name), {}), recipe, (9, 0))
    rows = {row["batch"]: row for row in whole["rows"] if row["prompt"] == PROMPT}
    launches = {phase: sum(low.launches(recipe).values()) for phase, low in lowered.items()}

    def gap(context: Context, measured_ms: float) -> float:
        kernels = kernels_s(lowered[context.phase], recipe, context, bare.rates)
        return (measured_ms * 1e3 - kernels * 1e6) / launches[context.phase]

    middle = PROMPT + NEW // 2
    graphs = {batch: rows[batch]["graph"]["graph_ms"] for batch in FITTED}
    gaps = [
        gap(Context(phase="decode", length=middle, rows=batch), graphs[batch]) for batch in FITTED
    ]
    few, many = ((rows[batch]["tpot_ms"] - graphs[batch]) * 1e3 for batch in FITTED)
    slope = max((many - few) / (FITTED[1] - FITTED[0]), 0.0)
    prompt = Context(phase="prefill", length=PROMPT, rows=PROMPT)
    return {
        "launch_us": round(mean(gaps), 2),
        "once_us": round(few - slope * FITTED[0], 1),
        "sequence_us": round(slope, 2),
        "prefill_launch_us": round(gap(prompt, rows[1]["ttft_ms"][0]), 2),
    }


def main() -> None:
    found, dates = benches(RESULTS.glob("*.json"))
    whole = json.loads((RESULTS / WHOLE).read_text(encoding="utf-8"))["bf16"]
    data: dict[str, Any] = {
        "device": "NVIDIA H200",
        "gpu": "h200",
        "date": max([*dates, whole["date"]]),
        "torch": whole["torch"],
        "families": found,
        "step": dict.fromkeys(STEP, 0.0),
    }
    data["step"] = {
        **step_of(whole, data),
        "model": whole["model"],
        "batches": list(FITTED),
        "date": whole["date"],
    }
    text = yaml.safe_dump(data, sort_keys=False, width=100)
    TABLE.write_text(f"# Written by tools/freeze_efficiencies.py; not by hand.\n{text}", "utf-8")
    print(f"{TABLE.name}: {len(found)} families and phases, step {data['step']}", file=sys.stderr)


if __name__ == "__main__":
    main()
