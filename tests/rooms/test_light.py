"""What must start fast never imports torch, triton or transformers: a fresh interpreter tells."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rooms import tree

HEAVY = ("torch", "triton", "transformers")
LIGHT_ROOMS = (
    *("ir", "checkpoint", "mechanisms", "models", "registry", "passes"),
    *("analysis", "scaffold", "report", "catalog", "cli"),
)


def modules(room: str) -> list[str]:
    """Dotted names of all modules of a room, scripts left out; empty if there is no such room."""
    names = []
    for path in tree.files():
        if path.suffix == ".py" and path.is_relative_to(Path("day0", room)):
            parts = path.with_suffix("").parts
            if parts[-1] != "__main__":
                names.append(".".join(parts).removesuffix(".__init__"))
    return names


def heavy_after(code: str, *, root: Path = tree.ROOT) -> list[str]:
    """Which of `HEAVY` a fresh interpreter holds after running `code`."""
    report = f"\nimport sys\nprint('heavy:', *sorted({set(HEAVY)!r} & sys.modules.keys()))\n"
    result = subprocess.run(
        [sys.executable, "-c", code + report],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(root), str(root / "kernels")))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()[-1].split()[1:]


def test_import_day0_is_light() -> None:
    assert heavy_after("import day0") == []


@pytest.mark.parametrize("room", LIGHT_ROOMS)
def test_a_light_room_is_light(room: str) -> None:
    names = modules(room)
    if not names:
        pytest.skip(f"day0/{room} does not exist yet")
    assert heavy_after(f"import {', '.join(names)}") == []


@pytest.mark.skipif(not (tree.ROOT / "day0" / "cli").is_dir(), reason="day0/cli is still to come")
@pytest.mark.parametrize("arguments", [["--help"], ["analyze", "--help"]], ids=" ".join)
def test_help_is_light(arguments: list[str]) -> None:
    code = (
        f"import runpy, sys\nsys.argv = ['day0', *{arguments!r}]\n"
        "try:\n    runpy.run_module('day0', run_name='__main__')\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
    )
    assert heavy_after(code) == []


@pytest.mark.parametrize("line", ["import triton", "def f():\n    import triton\nf()"])
def test_a_planted_import_is_seen(tmp_path: Path, line: str) -> None:
    (tmp_path / "triton.py").write_text("")
    (tmp_path / "planted.py").write_text(f"{line}\n")
    assert heavy_after("import planted", root=tmp_path) == ["triton"]
