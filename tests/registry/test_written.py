"""A half-written operator counts by what its folder shows."""

from pathlib import Path

import pytest

from day0.registry.written import definition, is_written, parity, record

STUB = 'def f(x):\n    """What it does."""\n    raise ValueError("to be written")\n'


@pytest.mark.parametrize(
    ("source", "written"),
    [
        (STUB, False),
        ("def f(x):\n    raise ValueError(x)\n", False),
        ('def f(x):\n    """Words."""\n', False),
        ("def g(x):\n    x.zero_()\n", False),
        ("def f(x):\n    x.zero_()\n", True),
        ('def f(x):\n    """Words."""\n    if x is None:\n        raise ValueError(x)\n', True),
    ],
    ids=["stub", "raise", "words", "other", "body", "check"],
)
def test_a_definition_does_more_than_raise(tmp_path: Path, source: str, written: bool) -> None:
    (tmp_path / "reference.py").write_text(source)
    assert is_written(tmp_path / "reference.py", "f") == written
    assert len(definition(tmp_path, "x.reference:f")) == written


def test_no_file_is_no_definition(tmp_path: Path) -> None:
    assert definition(tmp_path, "x.reference:f") == ()


@pytest.mark.parametrize("changed", ["reference.py", "kernel.py", "cases.py"])
def test_a_passed_case_counts_until_a_source_changes(tmp_path: Path, changed: str) -> None:
    for name in ("reference.py", "kernel.py", "cases.py"):
        (tmp_path / name).write_text("x = 1\n")
    assert parity(tmp_path) == ""
    record(tmp_path, "mixer/model", "cpu, interpreter")
    assert parity(tmp_path) == "mixer/model"
    (tmp_path / changed).write_text("x = 2\n")
    assert parity(tmp_path) == ""
    (tmp_path / changed).write_bytes(b"x = 1\r\n")
    assert parity(tmp_path) == "mixer/model"
