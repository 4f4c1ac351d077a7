"""Plans as a terminal shows them when they are asked for: name -> what draws it.

A plan is data of `day0.analysis`, made from an Analysis; a file plan_<name>.py draws it. The JSON
has all plans, whatever is asked for.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from day0.analysis.analyze import Analysis
from day0.errors import Day0Error
from day0.report import (
    plan_cost,
    plan_memory,
    plan_nearest,
    plan_parallel,
    plan_precision,
    plan_quant,
    plan_schedule,
)
from day0.report.numbers import plain

PLANS: Mapping[str, Callable[[Analysis], RenderableType]] = {
    "nearest": plan_nearest.render,
    "quant": plan_quant.render,
    "precision": plan_precision.render,
    "memory": plan_memory.render,
    "cost": plan_cost.render,
    "parallel": plan_parallel.render,
    "schedule": plan_schedule.render,
}
ALL = "all"


def chosen(names: Sequence[str]) -> tuple[str, ...]:
    """The plans named, once each; "all" for every one. Day0Error for any other name."""
    for name in names:
        if name not in PLANS and name != ALL:
            near = difflib.get_close_matches(name, PLANS, n=1) or [next(iter(PLANS))]
            raise Day0Error(
                f"--plan is {name!r}; it must be one of {', '.join((*PLANS, ALL))}",
                hint=f"day0 analyze MODEL --plan {near[0]}",
            )
    return tuple(PLANS) if ALL in names else tuple(dict.fromkeys(names))


def render(analysis: Analysis, names: Sequence[str]) -> RenderableType:
    """The plans alone, under a line that says of what and for what."""
    machine = analysis.machine
    gpus = f"{machine.count} x {machine.gpu.name}"
    head = f"{plain(analysis.id)}, recipe {analysis.recipe.name}, planned for {gpus}"
    parts: list[RenderableType] = [Text(head, style="dim")]
    for name in names:
        title = Text(f"Plan: {name}", style="bold")
        parts += [Text(), title, Padding(PLANS[name](analysis), (0, 0, 0, 2))]
    return Group(*parts)
