"""Known models by their distance, and what is other than in the nearest ones."""

from collections.abc import Mapping
from typing import Any

from day0.report.parts import Cell, Choice, Part, Section, Table, Words, word

KINDS = {
    "differences": "in meaning",
    "constants": "in constants",
    "sizes": "in sizes",
    "stored": "in stored forms",
}


def nearest(report: Mapping[str, Any]) -> Section:
    """A table of all, and the differences to those that are described."""
    found = report["nearest"]
    rows = tuple(
        (
            word(row["name"], code=True),
            Cell(text=f"{row['distance']:.3f}", value=row["distance"]),
            word("identical" if not row["distance"] else "; ".join(row["differences"][:3])),
        )
        for row in found
    )
    parts: list[Part] = [
        Table(
            name="nearest",
            columns=("known model", "distance", "first differences in meaning"),
            rows=rows,
            caption=f"All {len(rows)} known models",
            folded=True,
        )
    ]
    described = [row for row in found if any(row[kind] for kind in KINDS)]
    identical = [row["name"] for row in found if not row["distance"]]
    if identical:
        parts.append(Words(text=f"Identical in all features: {', '.join(identical)}."))
    if described:
        options = tuple((row["name"], (_differences(row),)) for row in described)
        parts.insert(0, Choice(name="differences", options=options))
    lead = "The catalog is empty."
    if found:
        lead = f"The nearest known model is {found[0]['name']}, at {found[0]['distance']:.3f}."
    return Section(
        id="nearest",
        title="Nearest models",
        lead=f"{lead} A mechanism that only one of them has counts 4 times its share of the "
        "layers, another meaning 1, a constant or a doubled size 0.1.",
        parts=tuple(parts),
    )


def _differences(row: Mapping[str, Any]) -> Table:
    rows = tuple(
        (word(title, tone="warn" if kind == "differences" else "dim"), word(text))
        for kind, title in KINDS.items()
        for text in row[kind]
    )
    return Table(name=f"against-{row['name']}", columns=("differs", "how"), rows=rows)
