"""day0 scaffold: what it says, its exit codes, and calls that can be mended."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from day0.cli.app import main
from tests.corpus import ROOT
from tests.scaffold import invented


def called(*arguments: str | Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["day0", "scaffold", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_once_twice_and_with_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new"
    common = ("demo", "--quant", "fp8", "--out", out)
    assert called(*common, monkeypatch=monkeypatch) == 0
    first = capsys.readouterr().out.splitlines()
    count = len([path for path in out.rglob("*") if path.is_file()])
    assert first[0] == f"{count} files written, 0 unchanged, 0 kept though they differ: {out}"
    assert "  written  checklist.md" in first
    assert len(first) == count + 1
    (out / "README.md").write_text("mine\n")
    assert called(*common, monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"0 files written, {count - 1} unchanged, 1 kept though they differ: {out}",
        "  kept     README.md",
    ]
    assert (out / "README.md").read_text() == "mine\n"
    assert called(*common, "--force", monkeypatch=monkeypatch) == 0
    assert "1 files written" in capsys.readouterr().out
    assert (out / "README.md").read_text() != "mine\n"


def test_where_nothing_is_new_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = "catalog:qwen--qwen3-0.6b"
    assert called(model, "--out", tmp_path / "new", monkeypatch=monkeypatch) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"nothing to write for {model}: under the recipe bf16 every operator")
    assert f"day0 checklist {model} --quant bf16" in text
    assert list(tmp_path.iterdir()) == []
    # An engine's plugin is another matter: it is written for any model.
    target = ("--target", "vllm", "--out", tmp_path / "plugin")
    assert called(model, *target, monkeypatch=monkeypatch) == 0
    marker = json.loads((tmp_path / "plugin" / "scaffold.json").read_text())
    assert (marker["target"], marker["package"]) == ("vllm", "day0_qwen3_vllm")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere", "--target", "trt", "--out", "x"), "--target is 'trt'; it must be one of day0"),
        (("demo", "--out", "file"), "--out file is a file; a folder is needed"),
        (("demo", "--out", "file/below"), "--out file/below cannot be written"),
        (("demo", "--out", "/proc/none/new"), "--out /proc/none/new cannot be written"),
        (("demo", "--out", "."), "--out . holds other files, and no scaffold of day0"),
        (("demo", "--out", "other"), "--out other is the scaffold of another model, target"),
    ],
)
def test_what_the_user_can_mend(
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("text\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "scaffold.json").write_text("{}\n")
    monkeypatch.chdir(tmp_path)
    assert called(*arguments, monkeypatch=monkeypatch) == 2
    error, hint = capsys.readouterr().err.splitlines()[-2:]
    assert words in error
    assert hint.startswith("hint: ")
    held = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert held == {"file", "other", "other/scaffold.json"}


def test_unknown_without_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words alone say that layers are unknown, and nothing of what they hold."""
    words = {**invented.CONFIG, "layer_types": ["unheard_of"] * 3}
    (tmp_path / "config.json").write_text(json.dumps(words))
    for target in ("day0", "sglang"):
        arguments = (tmp_path, "--out", tmp_path / "new", "--target", target)
        assert called(*arguments, monkeypatch=monkeypatch) == 4
        error, hint = capsys.readouterr().err.splitlines()[-2:]
        assert "parts are unknown, with no tensors to begin with: mixer of layer 0" in error
        assert "safetensors" in hint
    assert not (tmp_path / "new").exists()


def test_it_imports_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from day0.cli.app import app; "
        "app(sys.argv[1:], standalone_mode=False); "
        "print(sorted({'torch', 'triton', 'transformers'} & set(sys.modules)))"
    )
    for target in ("day0", "vllm"):
        out = subprocess.run(
            [sys.executable, "-c", code, "scaffold", "demo", "--quant", "fp8", "--target", target,
             "--out", tmp_path / target],
            cwd=ROOT, capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "kernels")},
        )  # fmt: skip
        assert out.stdout.splitlines()[-1] == "[]"
