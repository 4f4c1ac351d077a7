"""What is cached, and when the cache serves instead of the hub."""

from pathlib import Path

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import close_session

from tests.checkpoint.asking import codes, failure, get
from tests.checkpoint.build import SHARDS, sharded_files, write
from tests.checkpoint.hub_server import Hub

REPO = "org/name"


def go_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def library_cache(files: dict[str, bytes], commit: str, ref: str | None = "main") -> Path:
    """What `hf download` leaves behind: blobs, links to them in a snapshot, refs."""
    folder = Path(constants.HF_HUB_CACHE) / "models--org--name"
    snapshot = folder / "snapshots" / commit
    write(folder / "blobs", {f"{commit}-{name}": raw for name, raw in files.items()})
    snapshot.mkdir(parents=True)
    for name in files:
        (snapshot / name).symlink_to(folder / "blobs" / f"{commit}-{name}")
    if ref:
        write(folder / "refs", {ref: commit.encode()})
    return snapshot


def test_a_second_run_asks_for_the_listing_only(hub: Hub, cache: Path):
    first = get(cache)
    hub.log.clear()
    assert get(cache) == first
    assert [request.path for request in hub.log] == ["/api/models/org/name/revision/main"]


def test_a_second_run_works_offline(hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch):
    first = get(cache)
    hub.log.clear()
    go_offline(monkeypatch)
    second = get(cache)
    assert hub.log == []
    assert codes(second) == [("cache-used", "info")]
    assert (second.headers, second.config, second.read) == (first.headers, first.config, first.read)
    assert second.revision == hub.commit


def test_a_cached_commit_needs_no_network(hub: Hub, cache: Path):
    first = get(cache)
    hub.log.clear()
    again = get(cache, f"{REPO}@{first.revision}")
    assert hub.log == []
    assert (again.headers, again.findings) == (first.headers, ())


def test_a_new_commit_is_noticed(hub: Hub, cache: Path):
    first = get(cache)
    hub.update(sharded_files() | {"config.json": b'{"model_type": "new"}'})
    second = get(cache)
    assert second.config == {"model_type": "new"}
    assert second.revision != first.revision


def test_an_unreachable_hub_leaves_the_cache_and_a_warning(hub: Hub, cache: Path):
    get(cache)
    hub.close()
    close_session()
    found = get(cache)
    assert codes(found) == [("cache-used", "warning")]
    assert f"{hub.url} cannot be reached: the cached commit" in found.findings[0].message


def test_case_207_a_cached_gated_model_without_a_token(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    hub.gated, hub.token = True, "hf_granted"
    monkeypatch.setenv("HF_TOKEN", "hf_granted")
    first = get(cache)
    monkeypatch.delenv("HF_TOKEN")
    assert get(cache) == first  # the commit is cached whole: nothing gated is asked for
    hub.update(sharded_files() | {"config.json": b'{"model_type": "newer"}'})
    found = get(cache)
    assert codes(found) == [("cache-used", "warning")]
    assert found.findings[0].message == (
        f"the hub refused (gated, HTTP 401): the cached commit {first.revision[:12]} "
        "of org/name was used"
    )
    assert (found.config, found.headers) == (first.config, first.headers)


def test_case_207_files_that_the_library_cached(hub: Hub, cache: Path):
    library_cache(hub.files, hub.commit)
    hub.private, hub.token = True, "hf_granted"
    found = get(cache)
    assert codes(found) == [("cache-used", "warning")]
    assert found.headers is not None
    assert len(found.headers.tensors) == 4


def test_case_199_offline_with_a_complete_snapshot(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    library_cache(hub.files, hub.commit)
    go_offline(monkeypatch)
    found = get(cache)
    assert hub.log == []
    assert codes(found) == [("cache-used", "info")]
    assert found.revision == hub.commit
    assert found.headers is not None
    assert found.headers.shards == SHARDS


def test_a_snapshot_saves_requests_when_online(hub: Hub, cache: Path):
    library_cache(hub.files, hub.commit)
    assert get(cache).findings == ()
    assert [request.path for request in hub.log] == ["/api/models/org/name/revision/main"]


def test_case_197_offline_with_one_of_two_shards(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    files = sharded_files()
    del files[SHARDS[1]]
    library_cache(files, hub.commit)
    go_offline(monkeypatch)
    error = failure(REPO, cache)
    assert error.message.startswith("1 of 2 shards present, total unknown (")
    assert "run once with the hub in reach" in error.hint


def test_case_198_files_that_nobody_needs_may_be_absent(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    everything = sharded_files() | {"pytorch_model.bin": b"x", "onnx/model.onnx": b"x"}
    hub.update(everything)
    library_cache(sharded_files(), hub.commit)
    go_offline(monkeypatch)
    found = get(cache)
    assert found.headers is not None
    assert codes(found) == [("cache-used", "info")]


def test_case_200_a_cache_without_refs(hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch):
    library_cache(hub.files, hub.commit, ref=None)
    go_offline(monkeypatch)
    found = get(cache)
    assert codes(found) == [("cache-used", "warning")]
    assert found.findings[0].message.endswith("no refs/main, its only snapshot was taken")
    assert found.revision == hub.commit
    other = "f" * 40
    library_cache(hub.files, other, ref=None)
    message = failure(REPO, cache).message
    assert message == (
        f"org/name: the cache has no refs/main and 2 snapshots ({min(hub.commit, other)}, "
        f"{max(hub.commit, other)}); one must be named"
    )
    named = get(cache, f"{REPO}@{hub.commit}")
    assert codes(named) == [("cache-used", "info")]
    assert "offline and not cached" in failure(f"{REPO}@v1", cache).message


def test_case_208_offline_and_not_cached_is_not_remembered(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    go_offline(monkeypatch)
    error = failure(REPO, cache)
    assert error.message == (
        "org/name is offline and not cached: HF_HUB_OFFLINE forbids to ask the hub"
    )
    assert not cache.exists()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    assert get(cache).headers is not None


def test_a_damaged_cache_entry_is_fetched_again(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    get(cache)
    [entry] = (cache / "repos").rglob(f"{SHARDS[0]}.header")
    entry.write_bytes(entry.read_bytes()[:-1])
    hub.log.clear()
    assert get(cache).headers is not None
    assert [r.path for r in hub.requests("/blobs/")] == [f"/blobs/{SHARDS[0]}"]
    entry.write_bytes(b"")
    go_offline(monkeypatch)
    assert (
        f"the header of org/name/{SHARDS[0]} is offline and not cached"
        in failure(REPO, cache).message
    )
