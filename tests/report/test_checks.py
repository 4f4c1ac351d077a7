"""The checklist in a report: counts by stage, and each item with its evidence."""

from day0.report.parts import Table
from day0.report.sections.checks import checklist

MARKS = [
    {"id": f"item-{number}", "stage": stage, "status": status, "evidence": f"seen {number}",
     "ask": f"Is it {number}?", "why": "it matters", "proof": "analysis:proof.status"}
    for number, (stage, status) in enumerate(
        [("architecture", "pass"), ("architecture", "unknown"), ("ops/kda", "fail"),
         ("ops/kda", "pass"), ("ops/kda", "pass"), ("precision", "todo")]
    )
]  # fmt: skip


def test_counts_and_items() -> None:
    section = checklist({"checklist": MARKS})
    stages, items = section.parts
    assert isinstance(stages, Table)
    assert [[cell.text for cell in row] for row in stages.rows] == [
        ["architecture", "1", "0", "1", "0"],
        ["ops/kda", "2", "1", "0", "0"],
        ["precision", "0", "0", "0", "1"],
    ]
    assert section.lead.startswith("6 items: 3 pass, 1 fail, 1 unknown, 1 todo.")
    assert isinstance(items, Table)
    assert [(row[0].text, row[0].tone, row[3].text) for row in items.rows[2:4]] == [
        ("fail", "bad", "seen 2"), ("pass", "good", "seen 3"),
    ]  # fmt: skip
