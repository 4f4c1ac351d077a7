"""What kernels were measured to reach, frozen in efficiencies.yaml, and step times that follow.

The file is written by tools/freeze_efficiencies.py from kernels/bench_results. A family that no
bench times stands at the measured rates and `launch_s` a launch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from day0.ir.recipe import Recipe
from day0.passes.duration import durations
from day0.passes.lower import Lowered
from day0.registry.family import Context
from day0.registry.rates import H200, Efficiency, Rates

TABLE = Path(__file__).with_name("efficiencies.yaml")
# A step beyond its kernels: between launches of a captured decode step, of the host once a step and
# for each sequence, between launches of a step of prompts.
STEP = ("launch_us", "once_us", "sequence_us", "prefill_launch_us")


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiencies:
    """Of one GPU, `gpu` as in gpus.yaml. `step`: microseconds beyond the kernels', by STEP.
    `source` says where it is from."""

    gpu: str
    device: str
    date: str
    rates: Rates
    step: Mapping[str, float]

    @property
    def source(self) -> str:
        return f"measured on {self.device.removeprefix('NVIDIA ')} {self.date}"


def read(data: Mapping[str, Any]) -> Efficiencies:
    """The parsed file; its keys are "family phase" or "family phase fp8"."""
    families = {}
    for key, row in data["families"].items():
        name, phase, *narrow = key.split()
        families[name, phase, "".join(narrow)] = Efficiency(
            share=row["share"], overhead_s=row["overhead_us"] * 1e-6
        )
    return Efficiencies(
        gpu=data["gpu"],
        device=data["device"],
        date=str(data["date"]),
        rates=replace(H200, families=families),
        step={name: float(data["step"][name]) for name in STEP},
    )


@cache
def efficiencies() -> Efficiencies:
    """The file."""
    return read(yaml.safe_load(TABLE.read_text(encoding="utf-8")))


def measured_on(gpu: str) -> Efficiencies | None:
    """Of the GPU so called in gpus.yaml; None where no bench ran there: its shares are assumed."""
    found = efficiencies()
    return found if found.gpu == gpu else None


def kernels_s(low: Lowered, recipe: Recipe, context: Context, rates: Rates) -> float:
    """Seconds of a step's ops one after another."""
    spent = durations(low.graph, low, recipe, low.choices, context, rates)
    return sum(time.total for time in spent)


def step_s(low: Lowered, recipe: Recipe, context: Context, found: Efficiencies) -> float:
    """Seconds of a step of `context.rows` rows: its kernels, the gaps between them, the host."""
    launches, step = sum(low.launches(recipe).values()), found.step
    if context.phase == "prefill":
        beyond = step["prefill_launch_us"] * launches
    else:
        beyond = step["launch_us"] * launches + step["once_us"]
        beyond += step["sequence_us"] * context.rows
    return kernels_s(low, recipe, context, found.rates) + beyond * 1e-6
