"""The `--help` of each command, word for word: a new option shows here first."""

import os
import subprocess
import sys

import pytest

from tests.corpus import ROOT

GOLDEN = ROOT / "tests" / "golden"


@pytest.mark.parametrize("command", ["analyze", "run", "checklist", "diff", "scaffold", "validate"])
def test_help_is_the_golden_one(command: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / f"help_{command}.txt"
    result = subprocess.run(
        [sys.executable, "-m", "day0", command, "--help"],
        cwd=ROOT,
        # The width and the marks that the help is drawn with, whatever the terminal is.
        env={**os.environ, "TERMINAL_WIDTH": "100", "COLUMNS": "100", "NO_COLOR": "1",
             "TERM": "dumb", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )  # fmt: skip
    text = "".join(f"{line.rstrip()}\n" for line in result.stdout.splitlines())
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "pytest tests/cli --update-golden rewrites it"
