"""Sequences of layers in few words: they stand for the sequence, and are the words people use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from day0.report.repeats import Run, runs


def spelled(found: tuple[Run, ...]) -> list[str]:
    return [letter for run in found for letter in run.unit * run.times]


@given(st.text(alphabet="ABC", max_size=40))
def test_runs_stand_for_the_sequence(letters: str) -> None:
    found = runs(letters, start=3)
    assert spelled(found) == list(letters)
    starts = [3]
    for run in found[:-1]:
        starts.append(starts[-1] + run.length)
    assert [run.start for run in found] == starts[: len(found)]


@pytest.mark.parametrize(
    ("letters", "words"),
    [
        ("AAAB", ["A x 3", "B"]),
        ("AAAB" * 12, ["(A A A B) x 12"]),
        ("AAA" + "BCCC" * 10 + "BC", ["A x 3", "(B C C C) x 10", "B C"]),
        ("AAA" + "BBB" + "CBBB" * 18, ["A x 3", "B x 3", "(C B B B) x 18"]),
        ("A" * 80, ["A x 80"]),
        ("", []),
    ],
)
def test_the_shortest_words(letters: str, words: list[str]) -> None:
    assert [run.text for run in runs(letters)] == words
