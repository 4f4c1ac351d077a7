"""The weights of a checkpoint as files of a folder: a hub's shards are downloaded, nothing else.

huggingface_hub keeps its cache: one lock a file between processes, every file written beside its
place and moved there whole. A cut connection goes on where it broke; a run that was stopped goes on
with the shards it lacks. Imports the hub client only where a hub id needs it.
"""

import errno
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from day0.checkpoint.load import DEMO, default_cache, split_hub_id
from day0.checkpoint.safetensors_header import LENGTH_BYTES
from day0.checkpoint.source import Checkpoint
from day0.errors import Day0Error

THREADS = 4
# Free bytes that a download leaves on the disk.
SPARE = 64 << 20
# Small files beside the weights that running text needs.
COMPANIONS = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
              "special_tokens_map.json", "generation_config.json")  # fmt: skip

# bytes here, bytes in all, the shard that grew
Progress = Callable[[int, int, str], None]


def weights_folder(
    checkpoint: Checkpoint,
    *,
    cache_dir: Path | None = None,
    companions: Sequence[str] = COMPANIONS,
    progress: Progress | None = None,
) -> Path:
    """The folder that holds every file of `checkpoint.headers.shards`, whole.

    A folder and the demo are their own. For a hub id the shards of its commit that are missing are
    downloaded, with those of `companions` that the commit has: into the cache of huggingface_hub
    (HF_HOME), or below `cache_dir` where one is stated. `progress` is called as bytes arrive, from
    several threads, one call at a time.

    Raises Day0Error (exit 2): no safetensors, too little disk, a hub that cannot serve, a shard
    that is not what its header said.
    """
    if checkpoint.origin == "demo":
        return DEMO
    if checkpoint.origin == "folder":
        return Path(checkpoint.id).expanduser()
    if checkpoint.headers is None or not checkpoint.headers.shards:
        raise Day0Error(
            f"{checkpoint.id} has no safetensors weights to download",
            hint="day0 run MODEL --dummy makes weights up",
        )
    repo, _ = split_hub_id(checkpoint.id)
    from day0.checkpoint.weights_hub import Commit

    own = None if cache_dir is None else cache_dir / "hub"
    commit = Commit(repo, checkpoint.revision, own, cache_dir or default_cache())
    sizes = shard_bytes(checkpoint, commit.header_bytes)
    whole = commit.folder_with(sizes)
    if whole is None:
        whole = _fetch(commit, sizes, progress)
    for name in companions:
        commit.small(name, whole)
    return whole


def shard_bytes(
    checkpoint: Checkpoint, header_bytes: Callable[[str], int | None]
) -> dict[str, "Size"]:
    """The size of every shard. `header_bytes` of a shard: None where no cache has its header, so
    that only a lower bound is known."""
    assert checkpoint.headers is not None
    data = dict.fromkeys(checkpoint.headers.shards, 0)
    for header in checkpoint.headers.tensors.values():
        data[header.shard] = max(data[header.shard], header.stop)
    found = {}
    for name, count in data.items():
        header = header_bytes(name)
        found[name] = Size(least=count + LENGTH_BYTES + (header or 0), exact=header is not None)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Bytes of a file: `least` of them, or just so many when `exact`."""

    least: int
    exact: bool

    def fits(self, path: Path) -> bool:
        """Whether the file is there with this size."""
        try:
            found = path.stat().st_size
        except OSError:
            return False
        return found == self.least if self.exact else found >= self.least


class Stopped(Exception):
    """Raised inside a download whose sisters failed or whose user pressed Ctrl-C."""


class Meter:
    """Adds up the bytes of all downloads and tells the watcher; stops them when told to."""

    def __init__(self, sizes: Mapping[str, Size], progress: Progress | None) -> None:
        self.total = sum(size.least for size in sizes.values())
        self.stop = threading.Event()
        self._here = dict.fromkeys(sizes, 0)
        self._progress = progress
        self._lock = threading.Lock()

    def set(self, shard: str, count: int) -> None:
        """`count` bytes of the shard are here."""
        if self.stop.is_set():
            raise Stopped
        with self._lock:
            self._here[shard] = count
            if self._progress is not None:
                self._progress(min(sum(self._here.values()), self.total), self.total, shard)


def _fetch(commit: Any, sizes: Mapping[str, Size], progress: Progress | None) -> Path:
    meter = Meter(sizes, progress)
    missing = []
    for name, size in sizes.items():
        path = commit.place(name)
        if size.fits(path):
            meter.set(name, size.least)
        else:
            missing.append(name)
    _must_have_room(commit, missing, sizes)
    pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="day0-weights")
    try:
        futures = [pool.submit(_one, commit, name, sizes[name], meter) for name in missing]
        for future in as_completed(futures):
            future.result()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            left = [name for name in missing if not sizes[name].fits(commit.place(name))]
            raise _no_room(commit, left, sizes) from error
        raise
    finally:
        meter.stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
    return commit.folder


def _one(commit: Any, name: str, size: Size, meter: Meter) -> None:
    path = commit.place(name)
    damaged = path.exists()  # there, but not of its size
    commit.download(name, lambda count: meter.set(name, count), again=damaged)
    if not size.fits(path):
        raise Day0Error(
            f"{commit.repo}/{name} came as {path.stat().st_size:,} bytes, its header promises "
            f"{size.least:,}; both must agree",
            hint="run again; if it stays so, the repository is damaged",
        )
    meter.set(name, size.least)


def _must_have_room(commit: Any, missing: Sequence[str], sizes: Mapping[str, Size]) -> None:
    needed = sum(sizes[name].least for name in missing)
    if missing and not commit.offline and needed + SPARE > free_bytes(commit.root):
        raise _no_room(commit, missing, sizes)


def _no_room(commit: Any, missing: Sequence[str], sizes: Mapping[str, Size]) -> Day0Error:
    needed = sum(sizes[name].least for name in missing)
    return Day0Error(
        f"{commit.repo} needs {needed:,} bytes for {len(missing)} of {len(sizes)} shards, and "
        f"{commit.root} has {free_bytes(commit.root):,} bytes free",
        hint="free some, or name a larger disk with --cache-dir or HF_HOME; "
        "shards that are whole are kept",
    )


def free_bytes(path: Path) -> int:
    """Free bytes of the disk that `path` is or will be on."""
    for place in (path, *path.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue  # not made yet
    return 0
