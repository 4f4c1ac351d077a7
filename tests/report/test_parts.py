"""Every kind of part comes out of both renderers with its words and numbers, whatever report it
stands in."""

from dataclasses import replace
from typing import get_args

import pytest

from day0.report import html, markdown, parts, plots
from day0.report.parts import (
    Choice,
    Diagram,
    Edge,
    Node,
    Note,
    Notes,
    Page,
    Pairs,
    Part,
    Plot,
    Section,
    Series,
    Strip,
    Table,
    Tiles,
    Words,
    amount,
    share,
    size,
    whole,
    word,
)

PLOT = Plot(
    name="load",
    title="Throughput <&> latency",
    series=(
        Series(name="batch 1", points=((1, 10.0), (2, 20.0), (4, 35.5))),
        Series(name="<b>", points=((1, 5.0), (2, 5.0), (4, 5.0))),
    ),
    x_unit="tokens",
    y_unit="ms",
    x_label="input",
    y_label="time",
    marks=(("a bound", 30.0),),
)
EVERYTHING: tuple[Part, ...] = (
    Tiles(items=(("tile", amount(3_000_000), "of it"),)),
    Pairs(rows=(("pair", size(2**20)),)),
    Words(text="a paragraph", tone="warn"),
    Table(name="t", columns=("cell", "state"),
          rows=((word("reuse = uninterrupted"), word("fail", tone="bad")),
                (word("eager = graph"), word("pass", tone="good")))),
    Table(name="u", columns=("n", "part"), rows=((whole(1234567), share(0.25)),), folded=True,
          caption="folded rows"),
    Notes(items=(Note(severity="error", message="broken", code="bound", evidence=("e1",)),)),
    Strip(name="s", boxes=(("A", 0, "layer 0: kda"),)),
    PLOT,
    Diagram(name="d", title="drawn", nodes=(Node(id="a", label="one"), Node(id="b", label="two"),
                                            Node(id="c", label="alone")),
            edges=(Edge(source="a", target="b", label="goes"),)),
    Choice(name="c", options=(("first choice", (Words(text="inside"),)),)),
)  # fmt: skip
PAGE = Page(
    title="a page",
    subtitle="of everything",
    sections=(Section(id="all", title="All", lead="A lead.", parts=EVERYTHING),),
    made_by="tests",
)
SAID = (
    *("a page", "of everything", "A lead.", "tile", "3.00 M", "of it", "pair", "1.00 MiB"),
    *("a paragraph", "eager = graph", "fail", "pass", "1,234,567", "25.0 %", "folded rows"),
    *("error", "broken", "bound", "e1", "batch 1", "a bound", "drawn", "one", "goes", "alone"),
    *("first choice", "inside", "tests", "1,048,576"),
)


def test_all_kinds_are_here() -> None:
    assert {type(part) for part in EVERYTHING} == set(get_args(Part))


@pytest.mark.parametrize("render", [markdown.render, html.render])
def test_both_renderers_say_it_all(render: object) -> None:
    text = render(PAGE)  # pyright: ignore[reportCallIssue]
    assert [said for said in SAID if said not in text] == []
    assert "<b>" not in text.replace("<b>error</b>", "")


def test_lines_of_a_plot_stand_where_the_numbers_are() -> None:
    """The first series is linear up to its last point: the middle of the drawn line is, too."""
    line = Series(name="line", points=((0, 0.0), (1, 10.0), (2, 20.0)))
    drawn = plots.svg(replace(PLOT, series=(line,), log="", marks=()))
    path = drawn[drawn.index("fill: none; stroke: var(--series-0)") - 400 :]
    numbers = [float(item) for item in path[path.index('d="M') + 4 :].split('"')[0]
               .replace("L", " ").split()]  # fmt: skip
    (x0, y0), (x1, y1), (x2, y2) = zip(numbers[::2], numbers[1::2], strict=True)
    assert x1 == pytest.approx((x0 + x2) / 2)
    assert y1 == pytest.approx((y0 + y2) / 2)
    assert x0 < x2
    assert y0 > y2


@pytest.mark.parametrize(
    ("cell", "text"),
    [(whole(None), "-"), (size(None), "-"), (amount(None), "-"), (share(None), "-"),
     (word(None), "-"), (word(0), "0"), (whole(2.5), "2.5"), (whole(12), "12"),
     (word("a\x1b[0m"), "a\\x1b[0m"), (share(1 / 3), "33.3 %")],
)  # fmt: skip
def test_cells(cell: parts.Cell, text: str) -> None:
    assert cell.text == text
