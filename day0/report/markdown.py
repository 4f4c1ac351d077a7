"""A page as Markdown that GitHub renders, diagrams in Mermaid."""

import re
from collections.abc import Iterator

from day0.report import mermaid
from day0.report.numbers import plain
from day0.report.parts import (
    Cell,
    Choice,
    Diagram,
    Notes,
    Page,
    Pairs,
    Part,
    Plot,
    Strip,
    Table,
    Tiles,
    Words,
)
from day0.report.plot_units import in_unit

_SPECIAL = re.compile(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "#": "&#35;"}
_MARKS = {"warn": "⚠ ", "bad": "✗ ", "good": "✓ "}


def render(page: Page) -> str:
    """The whole page."""
    blocks = [f"# {text(page.title)}", text(page.subtitle)]
    for section in page.sections:
        blocks.append(f"## {text(section.title)}")
        if section.lead:
            blocks.append(text(section.lead))
        for part in section.parts:
            blocks += _part(part, level=3)
    blocks.append(f"---\n{text(page.made_by)}")
    return "\n\n".join(block for block in blocks if block) + "\n"


def text(words: str) -> str:
    """Foreign words that mean nothing to Markdown, to HTML and to GitHub's own links."""
    safe = "".join(_ENTITIES.get(letter, letter) for letter in plain(words))
    # What an entity needs is not taken for a letter of its own: # and & are gone by now.
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", safe)


def _part(part: Part, level: int) -> Iterator[str]:
    match part:
        case Words():
            yield text(part.text)
        case Tiles():
            rows = [(label, cell, Cell(text=remark)) for label, cell, remark in part.items]
            yield _grid(("", "", ""), [[text(name), _exact(cell), _cell(remark)]
                                       for name, cell, remark in rows])  # fmt: skip
        case Pairs():
            yield _grid(("", ""), [[text(name), _exact(cell)] for name, cell in part.rows])
        case Table():
            yield from _table(part)
        case Notes():
            yield "\n".join(_notes(part))
        case Strip():
            yield "`" + " ".join(letter for letter, _, _ in part.boxes) + "`"
        case Plot():
            yield from _plot(part)
        case Diagram():
            yield from _diagram(part, level)
        case Choice():
            for name, parts in part.options:
                yield f"{'#' * level} {text(name)}"
                for inner in parts:
                    yield from _part(inner, level + 1)


def _cell(cell: Cell) -> str:
    shown = text(cell.text)
    return f"{_MARKS.get(cell.tone, '')}{shown}"


def _exact(cell: Cell) -> str:
    """With all digits where the text has not got them."""
    shown = _cell(cell)
    if cell.value is None or not float(cell.value).is_integer():
        return shown
    exact = f"{cell.value:,.0f}"
    return shown if exact in cell.text else f"{shown} ({exact})"


def _table(table: Table) -> Iterator[str]:
    numeric = [
        bool(table.rows) and all(row[column].value is not None for row in table.rows)
        for column in range(len(table.columns))
    ]
    grid = _grid(table.columns, [[_cell(cell) for cell in row] for row in table.rows], numeric)
    if table.folded:
        yield f"<details><summary>{text(table.caption or table.name)}</summary>"
        yield grid
        yield "</details>"
    else:
        if table.caption:
            yield f"*{text(table.caption)}*"
        yield grid


def _grid(
    columns: tuple[str, ...], rows: list[list[str]], numeric: list[bool] | None = None
) -> str:
    marks = numeric or [False] * len(columns)
    lines = [" | ".join(text(column) for column in columns)]
    lines.append(" | ".join("---:" if right else "---" for right in marks))
    lines += [" | ".join(row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def _notes(notes: Notes) -> Iterator[str]:
    for note in notes.items:
        code = f" ({text(note.code)})" if note.code else ""
        yield f"- **{note.severity}** {text(note.message)}{code}"
        for item in note.evidence[:8]:
            yield f"  - {text(item)}"
        if len(note.evidence) > 8:
            yield f"  - and {len(note.evidence) - 8} more"


def _plot(plot: Plot) -> Iterator[str]:
    """GitHub draws no such plot: the same numbers as a table."""
    xs = sorted({x for series in plot.series for x, _ in series.points})
    found = [dict(series.points) for series in plot.series]
    rows = []
    for x in xs:
        values = [points.get(x) for points in found]
        shown = ["-" if y is None else in_unit(y, plot.y_unit) for y in values]
        if plot.stacked:
            shown.append(in_unit(sum(y or 0 for y in values), plot.y_unit))
        rows.append([in_unit(x, plot.x_unit), *shown])
    names = [series.name for series in plot.series] + (["sum"] if plot.stacked else [])
    yield f"*{text(plot.title)}*"
    yield _grid((plot.x_label, *names), rows, [True] * (len(names) + 1))
    for name, value in plot.marks:
        yield f"{text(name)}: {in_unit(value, plot.y_unit)}"


def _diagram(diagram: Diagram, level: int) -> Iterator[str]:
    flow = mermaid.flowchart(diagram)
    yield f"{'#' * level} {text(diagram.title)}"
    if diagram.passing and not diagram.labelled:
        yield f"Dotted arrows carry: {text(', '.join(diagram.passing))}."
    if mermaid.fits(flow, diagram):
        yield f"```mermaid\n{flow}```"
    else:
        count = f"{len(diagram.nodes)} boxes and {len(diagram.edges)} arrows"
        yield f"{count} are more than GitHub draws; the HTML report shows them."
