"""The README tells the truth: its outputs come from runs, its files and commands exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```\n\$ day0 ([^\n]*)\n(.*?)```", README, flags=re.DOTALL)


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def test_something_is_shown() -> None:
    assert [command for command, _ in SHOWN]


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_outputs_come_from_runs(command: str, shown: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "day0", *command.split()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "kernels")))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert lines(done.stdout) == lines(shown)


def test_the_tree_is_the_tree() -> None:
    block = README.split("## The tree")[1].split("```")[1]
    rooms = re.findall(r"^  (\w+)/", block, flags=re.MULTILINE)
    there = {
        path.name
        for path in (ROOT / "day0").iterdir()
        if path.is_dir() and not path.name.startswith(("_", "."))
    }
    assert set(rooms) == there


def test_covered_types_stand_in_the_table() -> None:
    from day0.models.known.types import COVERED

    table = README.split("## Models")[1].split("## Speed")[0]
    named = set(re.findall(r"`(\w+)`", table))
    assert set(COVERED) - named == set()
