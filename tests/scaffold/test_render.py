"""Literals are Python that reads back, laid out as the formatter lays it out."""

import ast
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from day0.scaffold.render import literal, places, ranges

VALUES: dict[str, Any] = {
    "nested": {"a": {"b": (1, 2.5), "c": ()}, "d": {}, "e": None},
    "long": {"names": tuple(f"name_{n}" for n in range(30)), "x" * 90: (True, -1)},
    "quotes": ('say "so"', "it's", "back\\slash", "line\nend", "ü"),
    "one": (1,),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=list(VALUES))
def test_literals(value: Any, tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    source = f"VALUE = {literal(value, 0, 8)}\n"
    assert ast.literal_eval(source.removeprefix("VALUE = ")) == value
    (tmp_path / "value.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "100"]
    subprocess.run([*command, tmp_path], check=True, capture_output=True)
    assert (tmp_path / "value.py").read_text(encoding="utf-8") == source


def test_ranges(seed: int) -> None:
    numbers = random.Random(seed).sample(range(60), 25)
    said = [part.split("-") for part in ranges(numbers).split(", ")]
    back = [n for part in said for n in range(int(part[0]), int(part[-1]) + 1)]
    assert back == sorted(numbers)
    assert ranges((0, 2, 3, 4, 9)) == "0, 2-4, 9"
    assert ranges((0, 2, 3, 4, 9), 1) == "0 and 4 more"
    assert places((1, 2)) == "layers 1-2"
    assert places(()).startswith("no layer")
