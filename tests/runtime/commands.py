"""Runs `day0` in this process, and changes copies of the demo checkpoint."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from day0.checkpoint.load import DEMO
from day0.cli.app import main


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a command left: exit code, stdout, lines of stderr without notes."""

    code: int
    out: str
    complaint: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.out)


Command = Callable[..., Done]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`command("run", "demo", ...)`."""

    def run(*arguments: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["day0", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        seen = capsys.readouterr()
        lines = seen.err.splitlines()
        return Done(
            code=int(end.value.code or 0),
            out=seen.out,
            complaint=tuple(line for line in lines if not line.startswith("note: ")),
            notes=tuple(line for line in lines if line.startswith("note: ")),
        )

    return run


def demo_copy(folder: Path) -> Path:
    """The demo checkpoint, free to be changed."""
    shutil.copytree(DEMO, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return folder


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    """Rewrite model.safetensors after `change` worked on its tensors in place."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})
