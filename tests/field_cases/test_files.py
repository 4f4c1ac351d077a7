"""Field cases about files: one reader for every way in."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from day0.checkpoint.load import load
from tests.corpus import ROOT
from tests.field_cases.asking import small

# Modules that may parse JSON: the one parser, and readers of what no checkpoint holds.
PARSERS = {
    "checkpoint/json_file.py",
    "checkpoint/header_cache.py",
    "catalog/entry.py",
    "catalog/features.py",
    "models/words.py",
    "parallel/watch.py",
    "analysis/compare.py",
    "analysis/measured.py",
    "registry/written.py",
    "runtime/prompts.py",
    "validate/bounds.py",
}


def json_calls(path: Path) -> list[str]:
    """Calls of json.load and json.loads in a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        f"{path.name}:{node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "json"
        and node.func.attr in ("load", "loads")
    ]


def importers(name: str) -> set[str]:
    """Modules of day0 that import a function."""
    found = set[str]()
    for path in (ROOT / "day0").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and name in {item.name for item in node.names}:
                found.add(path.relative_to(ROOT / "day0").as_posix())
    return found


def test_case_032_one_parser_for_config_json() -> None:
    """A second, stricter parser somewhere is how a mended fault comes back."""
    # the catalog's generator and the tokenizer read files of their own, by the same function
    readers = {"checkpoint/load.py", "catalog/__main__.py", "runtime/text.py"}
    assert importers("parse_config") <= readers
    parsing = {
        path.relative_to(ROOT / "day0").as_posix()
        for path in (ROOT / "day0").rglob("*.py")
        if json_calls(path)
    }
    assert parsing <= PARSERS
    assert "checkpoint/json_file.py" in parsing


def test_case_032_the_odd_file_through_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A config with a bare Infinity: Python's entry and the command line read the same."""
    from typer.testing import CliRunner

    from day0.analysis.analyze import analyze
    from day0.cli.app import app
    from day0.report.analysis_json import to_json

    text = json.dumps(small(time_step_limit=[0.0, "X"])).replace('"X"', "Infinity")
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    config: Any = load(str(tmp_path)).config
    assert config["time_step_limit"] == [0.0, float("inf")]
    expected = json.loads(json.dumps(to_json(analyze(str(tmp_path)))))
    assert "non-finite" in [finding["code"] for finding in expected["findings"]]
    result = CliRunner().invoke(app, ["analyze", str(tmp_path), "--format", "json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == expected
