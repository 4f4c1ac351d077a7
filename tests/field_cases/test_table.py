"""The table of field cases names every case of the corpus file, and only tests that exist."""

import ast
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tests.corpus import ROOT

TABLE = Path(__file__).with_name("README.md")
ROW = re.compile(r"^\| (\d+) \| (.*?) \| (.*?) \|$", re.MULTILINE)
TEST = re.compile(r"`([^`]+\.py)::(test_\w+)`")
LEFT = re.compile(r"issue (\d+): \S.*")
# Issues that may take what is left.
ISSUES = range(3, 12)


class Row(NamedTuple):
    """One line: number of the case, its tests (path below tests/, name), what is left for later."""

    number: int
    tests: tuple[tuple[str, str], ...]
    left: str


def table() -> list[Row]:
    text = TABLE.read_text(encoding="utf-8")
    return [
        Row(int(number), tuple(TEST.findall(tests)), left)
        for number, tests, left in ROW.findall(text)
    ]


@lru_cache(maxsize=64)
def names_in(path: Path) -> frozenset[str]:
    """Names of the test functions of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def numbered(name: str) -> tuple[int, ...]:
    """Cases that a test's name says: test_case_054_..., test_cases_12_13_..., test_110_..."""
    several = re.match(r"test_cases_((?:\d+_)+)", name)
    one = re.match(r"test_(?:case_)?(\d+)_", name)
    words = several[1].strip("_").split("_") if several else [one[1]] if one else []
    return tuple(map(int, words))


def test_every_case_of_the_corpus_stands_once(corpus: Path) -> None:
    text = (corpus / "field-cases.md").read_text(encoding="utf-8")
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)]
    assert len(numbers) > 100
    assert [row.number for row in table()] == numbers


def test_every_case_has_a_test_or_an_issue() -> None:
    for row in table():
        assert row.tests or row.left, row
        if row.left:
            match = LEFT.fullmatch(row.left)
            assert match is not None, row
            assert int(match[1]) in ISSUES, row


def test_every_named_test_exists() -> None:
    for row in table():
        for path, name in row.tests:
            assert name in names_in(ROOT / "tests" / path), (row.number, path, name)


def test_every_numbered_test_is_named() -> None:
    named = {(row.number, path, name) for row in table() for path, name in row.tests}
    for file in (ROOT / "tests").rglob("test_*.py"):
        path = file.relative_to(ROOT / "tests").as_posix()
        for name in names_in(file):
            for number in numbered(name):
                assert (number, path, name) in named, f"{path}::{name} is not in README.md"


def test_the_counts_of_the_head_are_right() -> None:
    rows = table()
    tested = [row for row in rows if row.tests]
    both = [row for row in tested if row.left]
    head = TABLE.read_text(encoding="utf-8")
    assert f"{len(rows)} cases: {len(tested)} have a test ({len(both)} of them" in head
    assert f"{len(rows) - len(tested)} are left\nwhole" in head
