"""Rendered files into a folder: whole or not at all, and never over what somebody wrote."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from day0.errors import Day0Error

MARKER = "scaffold.json"
SCHEMA = "day0.scaffold/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Paths below the folder: `written` now, `same` as they are, `kept` though they differ."""

    folder: Path
    written: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def marker(package: str, target: str) -> str:
    """What the file MARKER holds: whose scaffold a folder is."""
    return json.dumps({"schema": SCHEMA, "package": package, "target": target}, indent=1) + "\n"


def write_files(folder: Path, files: Mapping[str, str], *, force: bool) -> Written:
    """Write what is not there. A file that differs may be somebody's work: it is kept unless
    `force`. A folder that does not exist appears with all of its files or, when that is
    interrupted, not at all; in one that does, every single file is whole.

    The file MARKER says whose scaffold a folder is: where it differs, or is missing from a folder
    that holds anything, nothing is written (Day0Error).
    """
    try:
        if folder.exists() or folder.is_symlink():
            return _add(folder, files, force=force)
        return _make(folder, files)
    except (OSError, UnicodeDecodeError) as error:
        raise Day0Error(
            f"--out {folder} cannot be written: {getattr(error, 'strerror', None) or error}",
            hint="name a folder that you may write to",
        ) from error


def _make(folder: Path, files: Mapping[str, str]) -> Written:
    """The whole folder, beside its place until it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name[:64]}."))
    try:
        for name, text in files.items():
            _replace(beside / name, text)
        beside.chmod(0o777 & ~_mask())
        beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return Written(folder=folder, written=tuple(sorted(files)))


def _add(folder: Path, files: Mapping[str, str], *, force: bool) -> Written:
    if not folder.is_dir():
        raise Day0Error(f"--out {folder} is a file; a folder is needed", hint="--out NEW_FOLDER")
    if not force:
        _must_be_ours(folder, files)
    written, same, kept = [], [], []
    # The marker first: what is interrupted is completed by the same command.
    for name in sorted(files, key=lambda name: (name != MARKER, name)):
        path = folder / name
        if path.is_file() and path.read_text(encoding="utf-8") == files[name]:
            same.append(name)
        elif path.exists() and not force:
            kept.append(name)
        else:
            _replace(path, files[name])
            written.append(name)
    return Written(folder=folder, written=tuple(written), same=tuple(same), kept=tuple(kept))


def _must_be_ours(folder: Path, files: Mapping[str, str]) -> None:
    if not any(folder.iterdir()):
        return
    path = folder / MARKER
    if not path.is_file():
        raise Day0Error(
            f"--out {folder} holds other files, and no scaffold of day0",
            hint="name a new folder; --force writes into this one, over what is in the way",
        )
    if path.read_text(encoding="utf-8", errors="replace") != files[MARKER]:
        raise Day0Error(
            f"--out {folder} is the scaffold of another model, target or version of day0",
            hint="name a new folder; --force writes over this one",
        )


def _replace(path: Path, text: str) -> None:
    """By a new file beside it, with the rights that a plain `open` would give."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:64]}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(name).chmod(0o666 & ~_mask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _mask() -> int:
    """The process's umask; it can be read only by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
