"""The checklists, answered."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from day0.report.parts import Section, Table, whole, word

STATUSES = ("pass", "fail", "unknown", "todo")
STATUS_TONE = {"pass": "good", "fail": "bad", "unknown": "warn", "todo": ""}


def checklist(report: Mapping[str, Any]) -> Section:
    """How far each stage is, then every item with its evidence."""
    marks = report["checklist"]
    counted = Counter((mark["stage"], mark["status"]) for mark in marks)
    stages = dict.fromkeys(mark["stage"] for mark in marks)
    summary = tuple(
        (
            word(stage),
            *(
                whole(
                    counted[stage, status], tone=STATUS_TONE[status] * bool(counted[stage, status])
                )
                for status in STATUSES
            ),
        )
        for stage in stages
    )
    rows = tuple(
        (
            word(mark["status"], tone=STATUS_TONE[mark["status"]]),
            word(mark["stage"]),
            word(mark["ask"]),
            word(mark["evidence"]),
            word(mark["why"]),
            word(mark["proof"], code=True),
        )
        for mark in marks
    )
    totals = Counter(mark["status"] for mark in marks)
    return Section(
        id="checklist",
        title="Checklist",
        lead=f"{len(marks)} items: "
        + ", ".join(f"{totals[status]} {status}" for status in STATUSES if totals[status])
        + ". Nothing is marked pass without evidence; what has to be measured is unknown until "
        "day0 validate has run.",
        parts=(
            Table(name="stages", columns=("stage", *STATUSES), rows=summary),
            Table(
                name="checklist",
                columns=("status", "stage", "item", "evidence", "why", "proof"),
                rows=rows,
                caption="All items",
                folded=len(rows) > 12,
            ),
        ),
    )
