"""Figures and test results that a run left in files: what `metric:` and `test:` proofs ask."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from day0.analysis.answers import Answer
from day0.errors import Day0Error

RUN, REPORT = "day0.run/1", "day0.report/1"
_HINT = "day0 run MODEL --format json --out FILE, or pytest --junitxml FILE, writes evidence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value, the most it may be (None: nobody said), and where it was measured."""

    value: float
    bound: float | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Figures by name; per test ("tests/x.py::test_y") how many parametrisations passed, failed
    and were skipped."""

    figures: Mapping[str, Figure] = field(default_factory=dict)
    tests: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)

    def figure(
        self, name: str, *, at_most: float | None = None, at_least: float | None = None
    ) -> Answer:
        """Whether the figure is inside its bounds; those of the item come before its own."""
        found = self.figures.get(name)
        if found is None:
            return Answer(status="unknown", evidence=f"{name} is not measured")
        if at_most is None and at_least is None:
            at_most = found.bound
        said = f"{name} {found.value:.6g} ({found.source})"
        if at_most is None and at_least is None:
            return Answer(status="unknown", evidence=f"{said}, no bound is stated")
        low = "" if at_least is None else f", at least {at_least:g}"
        high = "" if at_most is None else f", at most {at_most:g}"
        # NaN is inside no bound.
        inside = (at_most is None or found.value <= at_most) and (
            at_least is None or found.value >= at_least
        )
        return Answer(status="pass" if inside else "fail", evidence=f"{said}{low}{high}")

    def test(self, name: str) -> Answer:
        """Whether the test passed, in each of its parametrisations that were run."""
        passed, failed, skipped = self.tests.get(name, (0, 0, 0))
        counts = f"{passed} passed, {failed} failed, {skipped} skipped"
        if failed:
            return Answer(status="fail", evidence=counts)
        if passed:
            return Answer(status="pass", evidence=counts)
        return Answer(status="unknown", evidence=f"not run: pytest {name} --junitxml FILE")


NOTHING = Measured()


def read_evidence(paths: Iterable[Path], *, model: str, revision: str, recipe: str) -> Measured:
    """What the files say of this model under this recipe: JSON of day0.run/1 or day0.report/1, or
    pytest's JUnit XML. Later files win. Day0Error for another file, model or recipe."""
    figures: dict[str, Figure] = {}
    tests: dict[str, tuple[int, int, int]] = {}
    for path in paths:
        text = _text(path)
        if text.lstrip().startswith("<"):
            tests.update(_tests(path, text))
            continue
        data = _json(path, text)
        of = data.get("model", {})
        for what, have, wanted in (
            ("model", of.get("id"), model),
            ("revision", of.get("revision"), revision),
            ("recipe", data.get("recipe"), recipe),
        ):
            if have != wanted:
                raise Day0Error(
                    f"--evidence {path} is of {what} {have!r}; it must be of {wanted!r}",
                    hint=_HINT,
                )
        figures.update(_figures(data, f"{path.name}, {data.get('device', 'device not stated')}"))
    return Measured(figures=figures, tests=tests)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Day0Error(f"--evidence {path} cannot be read: {reason}", hint=_HINT) from error


def _json(path: Path, text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        message = f"--evidence {path} is neither JSON nor XML: {error}"
        raise Day0Error(message, hint=_HINT) from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema not in (RUN, REPORT):
        raise Day0Error(
            f"--evidence {path} has schema {schema!r}; it must be {RUN} or {REPORT}", hint=_HINT
        )
    return data


def _figures(data: Mapping[str, Any], source: str) -> dict[str, Figure]:
    """Numbers under "metrics": a mapping from names to values, or a list of metrics with bounds."""
    metrics = data.get("metrics", {})
    if isinstance(metrics, Mapping):
        metrics = [{"name": name, "value": value} for name, value in metrics.items()]
    return {
        row["name"]: Figure(value=float(row["value"]), bound=row.get("bound"), source=source)
        for row in metrics
        if isinstance(row["value"], int | float) and not isinstance(row["value"], bool)
    }


def _tests(path: Path, text: str) -> dict[str, tuple[int, int, int]]:
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise Day0Error(f"--evidence {path} is no XML: {error}", hint=_HINT) from error
    found: dict[str, tuple[int, int, int]] = {}
    for case in root.iter("testcase"):
        bare = re.sub(r"\[.*", "", case.get("name", ""), flags=re.DOTALL)
        name = f"{case.get('classname', '').replace('.', '/')}.py::{bare}"
        kinds = {child.tag for child in case}
        passed, failed, skipped = found.get(name, (0, 0, 0))
        if kinds & {"failure", "error"}:
            failed += 1
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
        found[name] = passed, failed, skipped
    return found
