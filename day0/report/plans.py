"""Plans as a terminal shows them when they are asked for: name -> what draws it."""

from collections.abc import Callable, Mapping

from rich.console import RenderableType

from day0.analysis.analyze import Analysis
from day0.report import plan_schedule

PLANS: Mapping[str, Callable[[Analysis], RenderableType]] = {"schedule": plan_schedule.render}
