"""day0 checklist: its JSON, its exit codes, and figures that a run left."""

import json
import sys
from pathlib import Path

import pytest

from day0.cli.app import main


def called(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["day0", "checklist", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def measured(path: Path, compiles: int) -> str:
    data = {"schema": "day0.run/1", "model": {"id": "demo", "revision": ""}, "recipe": "bf16",
            "metrics": {"jit_compiles_after_ready": compiles}}  # fmt: skip
    path.write_text(json.dumps(data))
    return str(path)


def test_json_and_exit_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "checklist.json"
    common = ("demo", "--strict", "--format", "json", "--out", str(out))
    assert called(*common, monkeypatch=monkeypatch) == 0
    data = json.loads(out.read_text())
    assert data["schema"] == "day0.checklist/1"
    assert data["counts"]["fail"] == 0
    assert sum(data["counts"].values()) == len(data["checklist"]) > 80
    for compiles, code in ((0, 0), (3, 1)):
        path = measured(tmp_path / "run.json", compiles)
        assert called(*common, "--evidence", path, monkeypatch=monkeypatch) == code
    (late,) = [
        row for row in json.loads(out.read_text())["checklist"] if row["id"] == "nothing-late"
    ]
    assert late["status"] == "fail"
    assert late["evidence"].startswith("jit_compiles_after_ready 3 (run.json")
    assert called("demo", "--evidence", path, monkeypatch=monkeypatch) == 0
    assert "2 fail" in capsys.readouterr().out  # the stage's item and the asset's


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("demo", "--stage", "nothing"), "--stage is 'nothing'"),
        (("demo", "--format", "yaml"), "--format is 'yaml'"),
        (("demo", "--evidence", "nowhere.json"), "--evidence nowhere.json cannot be read"),
    ],
)
def test_what_the_user_can_mend(
    arguments: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert called(*arguments, monkeypatch=monkeypatch) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert words in error
    assert hint.startswith("hint: ")


def test_one_stage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("demo", "--stage", "kda", monkeypatch=monkeypatch) == 0
    text = capsys.readouterr().out
    assert "Is the state of a sequence held in fp32?" in text
    assert "architecture" not in text
