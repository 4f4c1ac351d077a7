"""The plans, as far as the JSON holds them."""

from collections.abc import Iterator, Mapping
from typing import Any

from day0.report.parts import Section
from day0.report.sections.checks import checklist
from day0.report.sections.plain import parts_of

# key -> title and what the plan answers
PLANS = {
    "nearest": ("Nearest models", "Known models by distance in mechanisms and attributes."),
    "precision": ("Precision plan", "What runs in which format, why, and what it risks."),
    "parallel": ("Parallelism plan", "Which splits are legal, what a rank holds and sends."),
    "schedule": ("Scheduling plan", "What runs side by side, is captured, and is warmed up."),
}


def plans(report: Mapping[str, Any]) -> Iterator[Section]:
    """One section for each plan that is there, then the checklist."""
    for key, (title, lead) in PLANS.items():
        if report.get(key):
            yield Section(id=key, title=title, lead=lead, parts=parts_of(key, report[key]))
    if report.get("checklist"):
        yield checklist(report)
