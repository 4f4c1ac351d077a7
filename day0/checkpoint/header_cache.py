"""Headers and listings of hub repositories on disk, keyed by repository and commit.

    ROOT/repos/org--name/refs/REVISION     the commit a branch or tag was last seen at
    ROOT/repos/org--name/COMMIT/files.json  names of all files of the commit
    ROOT/repos/org--name/COMMIT/*.header    size of the shard, then its header

Every file is written beside its place and moved there whole, so a reader sees all of it or
nothing. What a commit holds never changes: nothing expires. Small files lie in ROOT/hub, which
huggingface_hub manages itself.
"""

import json
import os
import tempfile
from pathlib import Path

from day0.checkpoint.safetensors_header import RawHeader
from day0.errors import Day0Error

_MAGIC = b"day0hdr1"
_UNKNOWN = 2**64 - 1


class HeaderCache:
    """The cache of one repository. Unreadable or damaged entries count as absent."""

    def __init__(self, root: Path, repo: str) -> None:
        self.root = root
        self.repo = root / "repos" / repo.replace("/", "--")

    @property
    def hub(self) -> Path:
        """Where huggingface_hub keeps the small files."""
        return self.root / "hub"

    def commit(self, revision: str) -> str:
        """The commit that `revision` was last seen at, or ""."""
        return _read(self.repo / "refs" / _flat(revision)).decode("ascii", "replace").strip()

    def save_commit(self, revision: str, commit: str) -> None:
        """Remember what a branch or tag stands for."""
        self._write(self.repo / "refs" / _flat(revision), commit.encode())

    def names(self, commit: str) -> frozenset[str] | None:
        """All files of a commit, None when not cached."""
        try:
            names = json.loads(_read(self.repo / commit / "files.json"))
        except ValueError:
            return None
        return frozenset(names) if isinstance(names, list) else None

    def save_names(self, commit: str, names: frozenset[str]) -> None:
        """Remember the listing of a commit."""
        self._write(self.repo / commit / "files.json", json.dumps(sorted(names)).encode())

    def header(self, commit: str, shard: str) -> RawHeader | None:
        """The header of a shard, None when not cached."""
        entry = _read(self.repo / commit / f"{_flat(shard)}.header")
        if entry[:8] != _MAGIC or len(entry) < 24:
            return None
        file_bytes = int.from_bytes(entry[8:16], "little")
        if int.from_bytes(entry[16:24], "little") != len(entry) - 24:
            return None
        return RawHeader(entry[24:], None if file_bytes == _UNKNOWN else file_bytes)

    def save_header(self, commit: str, shard: str, header: RawHeader) -> None:
        """Remember the header of a shard."""
        size = _UNKNOWN if header.file_bytes is None else header.file_bytes
        entry = _MAGIC + size.to_bytes(8, "little") + len(header.raw).to_bytes(8, "little")
        self._write(self.repo / commit / f"{_flat(shard)}.header", entry + header.raw)

    def _write(self, path: Path, content: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError as error:
            raise unwritable(self.root, error) from error


def unwritable(root: Path, error: OSError) -> Day0Error:
    """The error for a cache that cannot be written."""
    return Day0Error(
        f"the cache {root} cannot be written ({error.strerror or error}); "
        "a writable folder is needed",
        hint="give one with --cache-dir, or set DAY0_CACHE",
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _flat(name: str) -> str:
    """A file name for a revision or a shard in a folder below (refs/pr/1)."""
    return name.replace("/", "--")
