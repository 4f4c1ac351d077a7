"""The plans, as far as the JSON holds them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from day0.report.parts import Section
from day0.report.sections.checks import checklist
from day0.report.sections.nearest import nearest
from day0.report.sections.parallel import parallel
from day0.report.sections.precision import precision
from day0.report.sections.schedule import schedule

# key -> the section of its own file
SECTIONS: Mapping[str, Callable[[Mapping[str, Any]], Section]] = {
    "nearest": nearest,
    "precision": precision,
    "parallel": parallel,
    "schedule": schedule,
}


def plans(report: Mapping[str, Any]) -> Iterator[Section]:
    """One section for each plan that is there, then the checklist."""
    for key, section in SECTIONS.items():
        if report.get(key):
            yield section(report)
    if report.get("checklist"):
        yield checklist(report)
