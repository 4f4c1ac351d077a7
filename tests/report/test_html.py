"""The HTML report: one sound file that needs nothing else and obeys no word of a checkpoint."""

import re
from html.parser import HTMLParser

import pytest

from day0.report import html
from day0.report.analysis_page import analysis_page
from day0.report.numbers import count
from day0.report.parts import Page
from tests.report.pages import HOSTILE, KIMI_K3, MODELS, hostile_report, page_of, report_of

VOID = {"meta", "link", "br"}
# matplotlib's parts of a plot; SVG closes them in XML's way or ours.
OUTSIDE = re.compile(
    r"(?:src|href|xlink:href)\s*=\s*[\"'](?!#|data:,)|url\((?!#)|@import|https?://"
)


class Reader(HTMLParser):
    """Tags that match, ids, links and the text that a reader without a script has."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.refers: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.links += [(found["href"] or "")[1:]] if tag == "a" else []
        self.refers += [found[key] or "" for key in ("aria-controls", "data-details",
                                                    "aria-labelledby") if key in found]  # fmt: skip
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def read(page: Page) -> tuple[str, Reader]:
    text = html.render(page)
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return text, reader


@pytest.mark.parametrize("model", MODELS)
def test_the_file_is_sound_and_alone(model: str) -> None:
    text, reader = read(page_of(model))
    assert len(text.encode()) < 3e6
    assert len(reader.ids) == len(set(reader.ids))
    assert {link.replace("%3A", ":") for link in reader.links} <= set(reader.ids)
    assert set(reader.refers) <= set(reader.ids)
    namespaces = re.sub(r' xmlns(?::xlink)?="[^"]*"', "", text)
    assert not OUTSIDE.findall(namespaces)


def test_words_and_numbers_are_there_without_the_script() -> None:
    report = report_of(KIMI_K3)
    text = " ".join(" ".join(read(page_of(KIMI_K3))[1].text).split())
    assert f"{report['params']['total']:,}" in text
    for entry in report["inventory"]:
        assert count(entry["flops_per_token"]) in text
        assert all(path in text for path in entry["because"])
    for fact in report["facts"]:
        assert f"{fact['path']} " in text
    assert "layers.45.mixer.kda" in text


def test_words_of_a_checkpoint_stay_words() -> None:
    plain = read(analysis_page(report_of("demo")))[1]
    _, reader = read(analysis_page(hostile_report()))
    assert reader.tags.count("script") == plain.tags.count("script") == 1
    assert "img" not in reader.tags
    assert HOSTILE in "".join(reader.text)


def test_two_runs_give_the_same_bytes() -> None:
    assert html.render(page_of("demo")) == html.render(page_of("demo"))
