"""Shards of a hub's checkpoint as files of a folder: what is asked for, and every way to fail."""

import errno
import os
import re
import subprocess
import sys
import threading
from collections import namedtuple
from pathlib import Path

import pytest
from huggingface_hub import constants, file_download
from huggingface_hub.utils import close_session

from day0.checkpoint import weights
from day0.checkpoint.load import DEMO, load
from day0.checkpoint.source import Checkpoint
from day0.checkpoint.weights import weights_folder
from day0.errors import Day0Error
from tests.checkpoint.build import FIRST, INDEX, SHARDS, pack, sharded_files, write
from tests.checkpoint.build import header as header_of
from tests.checkpoint.hub_server import Fault, Hub

ROOT = Path(__file__).parents[2]
DATA = 300_000  # bytes of the large tensor: several reads of the client
BIG = {**FIRST, "layers.0.big": ("U8", (DATA,))}


def big_files() -> dict[str, bytes]:
    """A sharded checkpoint whose first shard does not arrive in one piece."""
    files = sharded_files()
    index = files[INDEX].replace(b'"layers.0.up"', b'"layers.0.big": "%s", "layers.0.up"'
                                 % SHARDS[0].encode(), 1)  # fmt: skip
    body = pack(header_of(BIG), 0) + bytes(range(256)) * ((DATA + 72) // 256 + 1)
    total = len(pack(header_of(BIG), 0)) + 96 + 24 + DATA
    return files | {INDEX: index, SHARDS[0]: body[:total], "tokenizer.json": b"{}",
                    "model.bin": b"pickle", "original.safetensors": b"other"}  # fmt: skip


@pytest.fixture
def big(hub: Hub) -> Hub:
    hub.update(big_files())
    return hub


def failed(checkpoint: Checkpoint, cache: Path | None = None) -> Day0Error:
    with pytest.raises(Day0Error) as caught:
        weights_folder(checkpoint, cache_dir=cache)
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def whole(folder: Path, hub: Hub) -> bool:
    return all((folder / name).read_bytes() == hub.files[name] for name in SHARDS)


def half_written(cache: Path) -> list[str]:
    """Files that are neither links, whole blobs, locks nor the library's own notes."""
    found = [path for path in cache.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path.name for path in found if "incomplete" in path.name]


def gets(hub: Hub, name: str) -> list[str]:
    return [one.range for one in hub.requests(f"/blobs/{name}") if one.method == "GET"]


def test_only_what_the_index_names(big: Hub, cache: Path) -> None:
    checkpoint = load("org/name", cache_dir=cache)
    big.log.clear()
    seen: list[tuple[int, int, str]] = []
    folder = weights_folder(checkpoint, cache_dir=cache, progress=lambda *step: seen.append(step))
    assert whole(folder, big)
    assert folder.is_relative_to(cache / "hub")
    assert (folder / "tokenizer.json").read_bytes() == b"{}"
    assert not (folder / "model.bin").exists()
    assert not (folder / "original.safetensors").exists()
    total = sum(len(big.files[name]) for name in SHARDS)
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert seen[-1][:2] == (total, total)
    assert {name for *_, name in seen} == set(SHARDS)
    assert half_written(cache) == []


def test_a_second_run_asks_nobody(big: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = load("org/name", cache_dir=cache)
    first = weights_folder(checkpoint, cache_dir=cache)
    big.log.clear()
    assert weights_folder(checkpoint, cache_dir=cache) == first
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert weights_folder(checkpoint, cache_dir=cache) == first
    assert big.log == []


def test_the_library_cache_is_used_and_filled(big: Hub, cache: Path) -> None:
    """Without a stated cache the weights are shared with every tool that uses the library."""
    checkpoint = load("org/name", cache_dir=cache)
    folder = weights_folder(checkpoint)
    assert folder.is_relative_to(constants.HF_HUB_CACHE)
    big.log.clear()
    assert weights_folder(checkpoint, cache_dir=cache) == folder
    assert gets(big, SHARDS[0]) == []


def test_offline_and_not_cached(big: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = load("org/name", cache_dir=cache)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "is offline and not cached" in failed(checkpoint, cache).message
    assert half_written(cache) == []


def test_an_unreachable_hub(big: Hub, cache: Path) -> None:
    checkpoint = load("org/name", cache_dir=cache)
    big.close()
    close_session()
    assert "cannot be read from" in failed(checkpoint, cache).message


@pytest.mark.parametrize("cut", [0, 100, 200_000], ids=["at once", "in the header", "in the data"])
def test_a_cut_connection_goes_on(
    cut: int, big: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 65_536)  # 10 MB: the whole test file
    checkpoint = load("org/name", cache_dir=cache)
    big.log.clear()
    big.faults[SHARDS[0]] = Fault(times=1, cut=cut)
    folder = weights_folder(checkpoint, cache_dir=cache)
    assert whole(folder, big)
    ranges = gets(big, SHARDS[0])
    assert len(ranges) == 2
    if cut == 200_000:
        start = int(ranges[1].removeprefix("bytes=").rstrip("-"))
        assert 0 < start <= cut


def test_always_cut_leaves_nothing_half_written(big: Hub, cache: Path) -> None:
    """The shard that came is kept: the next run asks for the other alone."""
    checkpoint = load("org/name", cache_dir=cache)
    big.faults[SHARDS[0]] = Fault(cut=0)
    error = failed(checkpoint, cache)
    assert SHARDS[0] in error.message
    assert half_written(cache) == []
    del big.faults[SHARDS[0]]
    weights_folder(checkpoint, cache_dir=cache)
    big.log.clear()
    weights_folder(checkpoint, cache_dir=cache)
    assert gets(big, SHARDS[1]) == []


def test_too_little_disk(big: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = load("org/name", cache_dir=cache)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(weights.shutil, "disk_usage", lambda path: usage(1, 1, 12_345))
    big.log.clear()
    message = failed(checkpoint, cache).message
    needed = sum(len(big.files[name]) for name in SHARDS)
    assert f"needs {needed:,} bytes for 2 of 2 shards" in message
    assert "has 12,345 bytes free" in message
    assert gets(big, SHARDS[0]) == []


def test_a_disk_that_fills_on_the_way(
    big: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = load("org/name", cache_dir=cache)
    write_one = file_download.http_get

    def full(url: str, file, **options) -> None:
        if SHARDS[0] in url:
            file.write(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_one(url, file, **options)

    monkeypatch.setattr(file_download, "http_get", full)
    error = failed(checkpoint, cache)
    assert re.search(r"needs [\d,]+ bytes for [12] of 2 shards", error.message)
    assert "bytes free" in error.message
    assert half_written(cache) == []
    monkeypatch.setattr(file_download, "http_get", write_one)
    assert whole(weights_folder(checkpoint, cache_dir=cache), big)


def test_a_cache_that_cannot_be_written(big: Hub, cache: Path, tmp_path: Path) -> None:
    checkpoint = load("org/name", cache_dir=cache)
    (tmp_path / "file").write_text("no folder")
    other = tmp_path / "file" / "below"
    with pytest.raises(Day0Error, match="cannot be written"):
        weights_folder(checkpoint, cache_dir=other)


def test_a_shard_that_vanished_from_the_hub(big: Hub, cache: Path) -> None:
    checkpoint = load("org/name", cache_dir=cache)
    del big.files[SHARDS[1]]
    message = failed(checkpoint, cache).message
    assert message.startswith(f"org/name/{SHARDS[1]} is not there any more")


def test_a_shard_that_is_another_now(big: Hub, cache: Path) -> None:
    checkpoint = load("org/name", cache_dir=cache)
    big.files[SHARDS[1]] = big.files[SHARDS[1]] + b"more"
    message = failed(checkpoint, cache).message
    assert f"{SHARDS[1]} came as {len(big.files[SHARDS[1]]):,} bytes" in message


@pytest.mark.parametrize("damage", ["cut", "gone", "dangling"])
def test_a_damaged_cache_is_mended(damage: str, big: Hub, cache: Path) -> None:
    checkpoint = load("org/name", cache_dir=cache)
    place = weights_folder(checkpoint, cache_dir=cache) / SHARDS[0]
    if damage == "cut":
        place.resolve().write_bytes(big.files[SHARDS[0]][:-1])
    elif damage == "gone":
        place.unlink()
    else:
        place.resolve().unlink()
    big.log.clear()
    assert whole(weights_folder(checkpoint, cache_dir=cache), big)
    assert gets(big, SHARDS[1]) == []


def test_a_stop_in_the_middle(big: Hub, cache: Path) -> None:
    """Ctrl-C reaches the main thread; the threads end at their next bytes, and nothing is half."""
    checkpoint = load("org/name", cache_dir=cache)

    def stop(done: int, total: int, shard: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weights_folder(checkpoint, cache_dir=cache, progress=stop)
    assert half_written(cache) == []
    assert not [one for one in threading.enumerate() if one.name.startswith("day0-weights")]
    assert whole(weights_folder(checkpoint, cache_dir=cache), big)


def test_two_processes_share_one_cache(big: Hub, cache: Path) -> None:
    checkpoint = load("org/name", cache_dir=cache)
    big.faults[SHARDS[0]] = Fault(times=1, pause=1.0)
    code = (
        "import sys; from pathlib import Path; from day0.checkpoint.load import load;"
        "from day0.checkpoint.weights import weights_folder; cache = Path(sys.argv[1]);"
        "print(weights_folder(load('org/name', cache_dir=cache), cache_dir=cache))"
    )
    big.log.clear()
    environment = {**os.environ, "HF_ENDPOINT": big.url, "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(cache)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=30) for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    folders = {out.strip() for out, _ in outputs}
    assert len(folders) == 1
    assert whole(Path(folders.pop()), big)
    assert half_written(cache) == []
    assert checkpoint.revision == big.commit


def test_a_folder_and_the_demo_are_their_own(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", sharded_files())
    assert weights_folder(load(str(folder))) == folder
    assert weights_folder(load("demo")) == DEMO


def test_no_safetensors(hub: Hub, cache: Path) -> None:
    hub.update({"config.json": b"{}", "pytorch_model.bin": b"pickle"})
    assert "has no safetensors weights" in failed(load("org/name", cache_dir=cache), cache).message
