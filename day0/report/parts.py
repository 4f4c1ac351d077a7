"""What reports are made of: pieces that say what is shown, not how. Markdown and HTML render them.

A report is a `Page` of titled sections. The analysis and the validation report use the same pieces.
"""

from dataclasses import dataclass
from typing import Any

from day0.report import numbers

TONES = ("", "good", "warn", "bad", "dim")
SERIES = 8  # colours of kinds and lines, "series-0" and so on; more begin again


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One shown figure or word.

    `value`: the exact number behind the text, for sorting and for those who ask. `tone`: one of
    TONES or a series. `facts`: paths of the facts it rests on. `code`: a name, shown in a
    fixed-width font. `anchor`: the name under which other places link to it.
    """

    text: str
    value: float | None = None
    tone: str = ""
    facts: tuple[str, ...] = ()
    code: bool = False
    anchor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Names and what they stand for."""

    rows: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """The few figures a reader looks for first: (label, figure, remark)."""

    items: tuple[tuple[str, Cell, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A paragraph."""

    text: str
    tone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells under columns. `folded`: shown closed, for what few readers want."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A finding. `severity`: info, warning or error; `evidence`: tensors, keys or values."""

    severity: str
    message: str
    code: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """Findings, worst first."""

    items: tuple[Note, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """A sequence of small boxes, one a layer: (letter, number of the kind, what it is). A box of
    kind n leads to option n of the Choice called `chooses`."""

    name: str
    boxes: tuple[tuple[str, int, str], ...]
    chooses: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A line of a plot: points (x, y), x rising."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Lines over a shared axis. `x_unit`, `y_unit`: "tokens", "bytes", "ms", ... ; `stacked`: the
    lines are parts of a sum; `marks`: horizontal lines with a name (a device's memory); `log`: the
    axes that are logarithmic, of "xy"."""

    name: str
    title: str
    series: tuple[Series, ...]
    x_unit: str
    y_unit: str
    x_label: str
    y_label: str
    stacked: bool = False
    marks: tuple[tuple[str, float], ...] = ()
    log: str = "x"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A box of a diagram: its first line, a second line, what it keeps between steps, a tone, and
    what a reader who asks is told. `kind`: op, input, output, cache, part or layers."""

    id: str
    label: str
    remark: str = ""
    keeps: str = ""
    tone: str = ""
    kind: str = ""
    details: tuple[tuple[str, Cell], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An arrow. `style`: "" along the main path, "side" for caches, "around" for what goes past
    other boxes or is shared: it has no say in where boxes stand."""

    source: str
    target: str
    label: str = ""
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """Boxes and arrows; where they stand is the renderer's business."""

    name: str
    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @property
    def passing(self) -> tuple[str, ...]:
        """What arrows that go around carry."""
        found = (edge.label for edge in self.edges if edge.style == "around" and edge.label)
        return tuple(dict.fromkeys(found))

    @property
    def labelled(self) -> bool:
        """Whether each arrow has room for its own words; else a line of text has them."""
        return sum(bool(edge.label) for edge in self.edges) < 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Alternatives of which a reader looks at one at a time: (label, parts)."""

    name: str
    options: tuple[tuple[str, tuple["Part", ...]], ...]


Part = Pairs | Tiles | Words | Table | Notes | Strip | Plot | Diagram | Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A titled stretch of a page. `lead`: one sentence under the title."""

    id: str
    title: str
    parts: tuple[Part, ...]
    lead: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole report. `made_by`: the words at its foot. `facts`: paths of the facts that a row of
    it tells about, anchored as fact-PATH."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    made_by: str
    facts: tuple[str, ...] = ()


def series(number: int) -> str:
    """The tone of a kind or line."""
    return f"series-{number % SERIES}"


def word(text: Any, *, tone: str = "", code: bool = False, facts: tuple[str, ...] = ()) -> Cell:
    """Text; None is a dash."""
    shown = "-" if text is None or text == "" else str(text)
    return Cell(text=numbers.plain(shown), tone=tone, code=code, facts=facts)


def whole(value: float | None, *, tone: str = "", facts: tuple[str, ...] = ()) -> Cell:
    """A number with all its digits; None is a dash."""
    if value is None:
        return Cell(text="-")
    text = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
    return Cell(text=text, value=value, tone=tone, facts=facts)


def size(value: float | None, *, tone: str = "", facts: tuple[str, ...] = ()) -> Cell:
    """Bytes in a unit; None is a dash."""
    if value is None:
        return Cell(text="-")
    return Cell(text=numbers.gib(value), value=value, tone=tone, facts=facts)


def amount(value: float | None, *, tone: str = "", facts: tuple[str, ...] = ()) -> Cell:
    """Parameters or flops in a unit; None is a dash."""
    if value is None:
        return Cell(text="-")
    return Cell(text=numbers.count(value), value=value, tone=tone, facts=facts)


def share(value: float | None, *, tone: str = "") -> Cell:
    """A part of one, as a percentage; None is a dash."""
    if value is None:
        return Cell(text="-")
    return Cell(text=numbers.percent(value), value=value, tone=tone)
