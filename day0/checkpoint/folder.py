"""The files of a checkpoint in a local folder."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from day0.checkpoint.safetensors_header import RawHeader, read_header
from day0.errors import Day0Error


class Folder:
    """Files of a folder. Pickle files are listed, never opened."""

    advice = (
        "fetch the absent shards, give the hub id (headers alone are read from there), "
        "or remove the index to analyse the config alone"
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self._names = frozenset(_listing(path))

    def names(self) -> frozenset[str]:
        """Files in the folder and in the folders directly below it."""
        return self._names

    def where(self, name: str) -> str:
        """The file's path."""
        return str(self.path / name)

    def small(self, name: str) -> bytes:
        """Read a file whole; Day0Error when that fails."""
        return read_whole(self.path / name)

    def headers(self, names: Iterable[str]) -> Iterator[tuple[str, RawHeader]]:
        """Read the headers of shards, one after the other."""
        for name in names:
            yield name, read_header(self.path / name)


def read_whole(path: Path) -> bytes:
    """Read a file; Day0Error when that fails."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise Day0Error(
            f"{path} cannot be read: {error.strerror or error}",
            hint=f"check that {path} is a readable file",
        ) from error


def _listing(path: Path) -> Iterator[str]:
    try:
        with os.scandir(path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise Day0Error(
            f"{path} cannot be listed: {error.strerror or error}",
            hint=f"check that {path} is a readable folder",
        ) from error
    for entry in found:
        # A link to a blob that is gone (an incomplete hub cache) is no file.
        if entry.is_file():
            yield entry.name
        elif entry.is_dir() and not entry.name.startswith("."):
            yield from _below(Path(entry.path), entry.name)


def _below(path: Path, name: str) -> Iterator[str]:
    """One level deeper, where copies lie (original/, metal/, checkpoint-100/)."""
    try:
        with os.scandir(path) as entries:
            files = [entry.name for entry in entries if entry.is_file()]
    except OSError:
        return  # a folder that may not be looked into holds no part of the chosen copy
    yield from (f"{name}/{file}" for file in sorted(files))
