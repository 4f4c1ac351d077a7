"""The wheel holds everything it needs: run from another folder, with nothing of the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.corpus import ROOT

pytestmark = pytest.mark.slow

READ_DATA = """
from pathlib import Path
import day0
from day0 import resources
for name in resources.FOLDERS:
    print(resources.folder(name).relative_to(Path(day0.__file__).parent))
    print((resources.folder(name) / "README.md").read_text().splitlines()[0])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built through the sdist, as a release is."""
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("dist")
    source = tmp_path_factory.mktemp("source")
    build(ROOT, "sdist", out)
    (sdist,) = out.glob("*.tar.gz")
    run(sys.executable, "-m", "tarfile", "-e", str(sdist), str(source), cwd=source)
    (tree,) = source.iterdir()
    build(tree, "wheel", out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def build(tree: Path, target: str, out: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out), cwd=tree)


def run(*command: str, cwd: Path, path: str = "") -> str:
    result = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_wheel_holds_both_packages_and_the_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert tops - {"day0", "day0_kernels"} == {"day0-" + version() + ".dist-info"}
    assert {"day0/_data/checklists/README.md", "day0/_data/templates/README.md"} <= set(names)
    demo = {f"day0/demo/{path.name}" for path in (ROOT / "day0" / "demo").iterdir()}
    assert {"day0/demo/config.json", "day0/demo/model.safetensors"} <= demo <= set(names)
    pages = {
        f"day0/report/assets/{name}" for name in ("page.html", "parts.html", "page.css", "page.js")
    }
    assert pages <= set(names)
    if any((ROOT / "kernels" / "day0_kernels").glob("*.py")):
        assert "day0_kernels/__init__.py" in names


def test_wheel_carries_every_source_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "day0").rglob("*.py")}
    assert sources <= names


def test_data_is_read_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    output = run(sys.executable, "-c", READ_DATA, cwd=tmp_path, path=str(installed))
    assert output.split("\n")[:4] == [
        "_data/checklists",
        "# Checklists",
        "_data/templates",
        "# Templates",
    ]


@pytest.mark.skipif(not (ROOT / "day0" / "cli").is_dir(), reason="day0/cli is still to come")
def test_help_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    output = run(sys.executable, "-m", "day0", "--help", cwd=tmp_path, path=str(installed))
    assert "analyze" in output


@pytest.mark.skipif(not (ROOT / "day0" / "cli").is_dir(), reason="day0/cli is still to come")
def test_help_runs_from_a_bare_checkout(tmp_path: Path) -> None:
    output = run(sys.executable, "-m", "day0", "--help", cwd=tmp_path, path=str(ROOT))
    assert "analyze" in output


def version() -> str:
    from day0 import __version__

    return __version__
