"""Markdown: a parser of GitHub's dialect finds the tables with the JSON's numbers, and no more."""

from html.parser import HTMLParser
from typing import Any

import pytest
from markdown_it import MarkdownIt

from day0.report import markdown
from day0.report.analysis_page import analysis_page
from day0.report.numbers import count, gib
from tests.report.pages import HOSTILE, KIMI_K3, MODELS, hostile_report, page_of, report_of


class Grids(HTMLParser):
    """Tables as lists of rows, and all tags and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.tags: set[str] = set()
        self.text = ""
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.inside:
            self.tables[-1][-1][-1] += data


def read(text: str) -> Grids:
    grids = Grids()
    grids.feed(MarkdownIt("commonmark").enable("table").render(text))
    return grids


def table_of(grids: Grids, *head: str) -> list[list[str]]:
    """Rows of the one table whose heads begin so."""
    (found,) = [rows for rows in grids.tables if rows[0][: len(head)] == list(head)]
    return found[1:]


@pytest.mark.parametrize("model", MODELS)
def test_numbers_are_those_of_the_json(model: str) -> None:
    report = report_of(model)
    grids = read(markdown.render(page_of(model)))
    pairs = {row[0]: row[1] for rows in grids.tables for row in rows if len(row) in (2, 3)}
    assert pairs["parameters of the trunk"] == f"{report['params']['trunk']:,}"
    assert pairs["active per token"] == f"{report['params']['active']:,}"
    assert pairs["checkpoint bytes"] == f"{report['bytes']['checkpoint']:,}"
    assert f"({report['params']['total']:,})" in pairs["Parameters"]
    assert f"({report['state_bytes_per_sequence']:,})" in pairs["State"] or (
        report["state_bytes_per_sequence"] < 1024
    )
    assert pairs["KV cache"].removesuffix(" B") == f"{report['kv_bytes_per_token']:,}"

    inventory = table_of(grids, "verdict", "family", "shapes")
    assert [row[3] for row in inventory] == [f"{e['count']:,}" for e in report["inventory"]]
    assert [row[5] for row in inventory] == [count(e["params"]) for e in report["inventory"]]
    assert [row[7] for row in inventory] == [gib(e["bytes_per_token"]) for e in report["inventory"]]
    caches = table_of(grids, "cache", "growth")
    assert [row[5] for row in caches] == [per_token(row) for row in report["caches"]]
    held = table_of(grids, "tokens", "one sequence holds")
    assert [row[2] for row in held] == [f"{r['bytes']:,}" for r in report["memory"]["sequence"]]


def per_token(row: dict[str, Any]) -> str:
    rate = row["bytes_per_pool"] / row["pool"] if row["pool"] else row["bytes_per_token"]
    return f"{rate * len(row['layers']):,.0f}"


def test_the_plot_is_there_as_numbers() -> None:
    report = report_of(KIMI_K3)
    (rows,) = [rows for rows in read(markdown.render(page_of(KIMI_K3))).tables
               if rows[0][:2] == ["tokens", "all together"]]  # fmt: skip
    growth = report["memory"]["growth"]
    sums = [sum(line["bytes"][at] for line in growth["caches"])
            for at in range(len(growth["tokens"]))]  # fmt: skip
    assert [row[1] for row in rows[1:]] == [gib(value) for value in sums]
    assert rows[-1][0] == "1M"


def test_diagrams_stand_in_fences_of_their_own() -> None:
    tokens = MarkdownIt("commonmark").parse(markdown.render(page_of(KIMI_K3)))
    fences = [token.content for token in tokens if token.type == "fence"]
    assert len(fences) == 5
    assert all(fence.startswith("flowchart TD\n") for fence in fences)


def test_foreign_words_stay_words() -> None:
    text = markdown.render(analysis_page(hostile_report()))
    grids = read(text)
    assert not {"script", "img", "a"} & grids.tags
    assert HOSTILE in grids.text
    for rows in grids.tables:
        assert {len(row) for row in rows} == {len(rows[0])}
