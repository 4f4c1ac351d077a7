"""A folder appears whole or not at all, and nothing that somebody wrote is written over."""

import os
import re
from pathlib import Path

import pytest

from day0.errors import Day0Error
from day0.scaffold import files
from day0.scaffold.files import MARKER, Written, marker, write_files

FILES = {MARKER: marker("day0_new", "day0"), "a.py": "A = 1\n", "deep/er/b.py": "B = 2\n"}


def held(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def written(folder: Path, force: bool = False, **changes: str) -> Written:
    return write_files(folder, {**FILES, **changes}, force=force)


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "some" / "where"
    first = written(folder)
    assert held(folder) == FILES
    assert first == Written(folder=folder, written=tuple(sorted(FILES)))
    assert [path.name for path in folder.parent.iterdir()] == ["where"]
    before = {name: (folder / name).stat().st_mtime_ns for name in FILES}
    again = written(folder)
    assert (again.written, set(again.same), again.kept) == ((), set(FILES), ())
    assert before == {name: (folder / name).stat().st_mtime_ns for name in FILES}


def test_somebodys_work_is_kept_unless_forced(tmp_path: Path) -> None:
    written(tmp_path / "new")
    (tmp_path / "new" / "a.py").write_text("A = 'mine'\n")
    (tmp_path / "new" / "deep" / "er" / "b.py").unlink()
    (tmp_path / "new" / "mine.py").write_text("MINE = 3\n")
    again = written(tmp_path / "new")
    assert (again.written, again.kept) == (("deep/er/b.py",), ("a.py",))
    assert held(tmp_path / "new") == {**FILES, "a.py": "A = 'mine'\n", "mine.py": "MINE = 3\n"}
    forced = written(tmp_path / "new", force=True)
    assert (forced.written, forced.kept) == (("a.py",), ())
    assert held(tmp_path / "new") == {**FILES, "mine.py": "MINE = 3\n"}


def test_rights_are_those_of_a_plain_open(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        written(tmp_path / "new")
    finally:
        os.umask(mask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "new" / "a.py").stat().st_mode & 0o777 == 0o640


def test_another_scaffolds_folder_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    other = marker("day0_other", "day0")
    with pytest.raises(Day0Error, match="of another model, target or version"):
        written(tmp_path, **{MARKER: other})
    assert held(tmp_path) == FILES
    written(tmp_path, force=True, **{MARKER: other})
    assert held(tmp_path) == {**FILES, MARKER: other}


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.md").write_text("years\n")
    with pytest.raises(Day0Error, match="holds other files") as error:
        written(tmp_path)
    assert "--force" in error.value.hint
    assert held(tmp_path) == {"thesis.md": "years\n"}
    (tmp_path / "thesis.md").unlink()
    assert written(tmp_path).written[0] == MARKER  # an empty one is taken, its marker first


@pytest.mark.parametrize("place", ["file", "file/below", "loop"])
def test_no_folder(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("text\n")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(Day0Error, match=re.escape(f"--out {tmp_path / place}")) as error:
        written(tmp_path / place)
    assert error.value.hint
    assert (tmp_path / "file").read_text() == "text\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_interrupted_run_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    plain, calls = files._replace, []

    def interrupted(path: Path, text: str) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise error
        plain(path, text)

    monkeypatch.setattr(files, "_replace", interrupted)
    with pytest.raises((KeyboardInterrupt, Day0Error)):
        written(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
    # In a folder that is there: whole files, and the same command completes them.
    (tmp_path / "old").mkdir()
    calls.clear()
    with pytest.raises((KeyboardInterrupt, Day0Error)):
        written(tmp_path / "old")
    assert held(tmp_path / "old") == {MARKER: FILES[MARKER]}
    monkeypatch.setattr(files, "_replace", plain)
    written(tmp_path / "old")
    assert held(tmp_path / "old") == FILES
