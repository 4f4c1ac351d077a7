"""Rendered files into a folder: whole or not at all, and never over what somebody wrote."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from day0.errors import Day0Error


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Paths below the folder: `written` now, `same` as they are, `kept` though they differ."""

    folder: Path
    written: tuple[str, ...]
    same: tuple[str, ...]
    kept: tuple[str, ...]


def write_files(folder: Path, files: Mapping[str, str], *, force: bool, marker: str) -> Written:
    """Write what is not there. A file that differs is somebody's work: it is kept unless `force`.

    The file called `marker` says whose scaffold a folder is: where it differs, or is missing from a
    folder that holds anything, nothing is written (Day0Error).
    """
    if not force:
        _must_be_ours(folder, files, marker)
    written, same, kept = [], [], []
    try:
        for name, text in sorted(files.items()):
            path = folder / name
            if path.is_file() and path.read_text(encoding="utf-8") == text:
                same.append(name)
            elif path.exists() and not force:
                kept.append(name)
            else:
                _replace(path, text)
                written.append(name)
    except (OSError, UnicodeDecodeError) as error:
        raise Day0Error(
            f"--out {folder} cannot be written: {getattr(error, 'strerror', None) or error}",
            hint="name a folder that you may write to",
        ) from error
    return Written(folder=folder, written=tuple(written), same=tuple(same), kept=tuple(kept))


def _must_be_ours(folder: Path, files: Mapping[str, str], marker: str) -> None:
    if folder.exists() and not folder.is_dir():
        raise Day0Error(f"--out {folder} is a file; a folder is needed", hint="--out NEW_FOLDER")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    path = folder / marker
    if not path.is_file():
        raise Day0Error(
            f"--out {folder} holds other files, and no scaffold of day0",
            hint="name a new folder; --force writes into this one, over what is in the way",
        )
    if path.read_text(encoding="utf-8", errors="replace") != files[marker]:
        raise Day0Error(
            f"--out {folder} is the scaffold of another model, target or version of day0",
            hint="name a new folder; --force writes over this one",
        )


def _replace(path: Path, text: str) -> None:
    """By a new file beside it, with the rights that a plain `open` would give."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mask = os.umask(0)
    os.umask(mask)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:64]}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
