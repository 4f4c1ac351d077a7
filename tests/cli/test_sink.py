"""Where reports go: pipes that close, full disks, odd terminals, files that are none."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from day0.cli.output import write
from day0.errors import Day0Error
from tests.corpus import ROOT

DEMO = json.loads((ROOT / "day0" / "demo" / "config.json").read_text(encoding="utf-8"))


def day0(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> Any:
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(
        [sys.executable, "-m", "day0", *arguments],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        check=False,
        **options,
    )


def two_lines(done: Any, *words: str) -> None:
    assert done.returncode == 2, done.stderr
    error, hint = done.stderr.decode().strip().splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    for word in words:
        assert word in done.stderr.decode()


def foreign(folder: Path) -> Path:
    """A checkpoint whose words are no words for a terminal."""
    words = {
        **DEMO,
        "model_type": "x[bold]\n\x1b[31m :smile: \u00e9",
        "architectures": ["[/nothing]\ud800", 7],
        "k\udfff\x1b": {"[/x]": "y" * 5000},
    }
    (folder / "config.json").write_text(json.dumps(words), encoding="utf-8")
    return folder


def test_foreign_words_are_shown_as_they_are_and_never_obeyed(tmp_path: Path) -> None:
    done = day0("analyze", str(foreign(tmp_path)), env={"PYTHONIOENCODING": "utf-8"})
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert "x[bold]\\n\\x1b[31m :smile: \u00e9" in text
    assert "[/nothing]\\ud800" in text
    assert "\x1b" not in text


def test_json_and_a_file_take_foreign_words(tmp_path: Path) -> None:
    folder, out = str(foreign(tmp_path)), tmp_path / "report.json"
    assert day0("analyze", folder, "--format", "json", "--out", str(out)).returncode == 0
    assert json.loads(out.read_text(encoding="utf-8"))["model"]["model_type"].startswith("x[bold]")
    assert day0("analyze", folder, "--out", str(tmp_path / "report.txt")).returncode == 0
    assert "\\x1b[31m" in (tmp_path / "report.txt").read_text(encoding="utf-8")


def test_a_terminal_of_ascii(tmp_path: Path) -> None:
    done = day0("analyze", str(foreign(tmp_path)), env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = [sys.executable, "-m", "day0", "analyze", "demo", "--format", "json"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full here")
@pytest.mark.parametrize("form", ["human", "json"])
def test_a_full_disk(form: str) -> None:
    with Path("/dev/full").open("wb") as full:
        two_lines(day0("analyze", "demo", "--format", form, stdout=full), "stdout", "--out")


def test_without_home_and_without_colour() -> None:
    env = {"HOME": "/nonexistent", "NO_COLOR": "1", "COLUMNS": "60"}
    done = day0("analyze", "demo", env=env)
    assert done.returncode == 0, done.stderr
    assert b"5,717,848" in done.stdout
    assert b"\x1b" not in done.stdout


@pytest.mark.parametrize("form", ["yaml", "JSON", ""])
def test_a_format_that_is_none(form: str) -> None:
    two_lines(day0("analyze", "demo", "--format", form), repr(form), "human, json")


@pytest.mark.parametrize("place", ["", "file/below", "x" * 300], ids=["folder", "file", "long"])
def test_places_that_cannot_be_written(place: str, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(Day0Error) as error:
        write("report", inner / place)
    assert "cannot be written" in error.value.message
    assert [path.name for path in inner.iterdir()] == ["file"]
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    """As root a rename would take the place of /dev/null itself."""
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write("report", pipe)
    reader.join(timeout=10)
    assert read == [b"report"]
    assert pipe.is_fifo()


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old", encoding="utf-8")
    file.chmod(0o640)
    link.symlink_to(file)
    write("new", link)
    assert link.is_symlink()
    assert file.read_text(encoding="utf-8") == "new"
    assert file.stat().st_mode & 0o777 == 0o640
