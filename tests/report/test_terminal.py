"""The report for people: what it must not leave out, and what it must not obey."""

import io
from typing import Any

import pytest
from rich.console import Console

from day0.report.numbers import LONGEST, count, gib, plain, spans
from day0.report.terminal import render
from tests.field_cases.asking import analysis, small


def text_of(config: dict[str, Any], width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, color_system=None)
    console.print(render(analysis(config)))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_figures_without_unknown_layers_say_so() -> None:
    """Without headers the layers of an unknown type have no sizes: totals are of the rest."""
    report = text_of(small(model_type="new", strange_size=7))
    assert "not counted, here and below: what 4 unknown operators hold and do" in report
    assert "not counted" not in text_of(small())


def test_a_narrow_terminal_is_kept_to() -> None:
    lines = text_of(small(), width=60).splitlines()
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1024, "1.00 KiB"), (2**30, "1.00 GiB"),
     (1_560_860_324_864, "1,453.66 GiB"), (1_048_575, "1.00 MiB")],
)  # fmt: skip
def test_bytes(value: int, text: str) -> None:
    assert gib(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(999, "999"), (1000, "1.00 K"), (2_779_931_837_184, "2.78 T"), (999_999, "1.00 M")],
)
def test_counts(value: int, text: str) -> None:
    assert count(value) == text


def test_layer_numbers() -> None:
    assert spans((0, 1, 2, 4, 6, 7)) == "0-2,4,6-7"
    assert spans(()) == "-"


def test_foreign_words_are_spelled_out_and_cut() -> None:
    assert plain("a\x1b[2J\u202eb\ud800\n") == "a\\x1b[2J\\u202eb\\ud800\\n"
    assert plain("caf\u00e9 \u6a21\u578b") == "caf\u00e9 \u6a21\u578b"
    assert len(plain("x" * 10_000)) == LONGEST
