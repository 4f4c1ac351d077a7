"""The plans, as far as the JSON holds them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from day0.report.parts import Section
from day0.report.sections.checks import checklist
from day0.report.sections.parallel import parallel
from day0.report.sections.plain import parts_of

# key -> the section of its own file
SECTIONS: Mapping[str, Callable[[Mapping[str, Any]], Section]] = {"parallel": parallel}
# key -> title and what the plan answers, for those shown as they are
PLANS = {
    "nearest": ("Nearest models", "Known models by distance in mechanisms and attributes."),
    "precision": ("Precision plan", "What runs in which format, why, and what it risks."),
    "schedule": ("Scheduling plan", "What runs side by side, is captured, and is warmed up."),
}


def plans(report: Mapping[str, Any]) -> Iterator[Section]:
    """One section for each plan that is there, then the checklist."""
    for key in (*SECTIONS, *PLANS):
        if not report.get(key):
            continue
        if key in SECTIONS:
            yield SECTIONS[key](report)
        else:
            title, lead = PLANS[key]
            yield Section(id=key, title=title, lead=lead, parts=parts_of(key, report[key]))
    if report.get("checklist"):
        yield checklist(report)
