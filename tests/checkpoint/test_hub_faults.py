"""A hub and a CDN that misbehave."""

import json
from pathlib import Path

import pytest
from huggingface_hub import constants

from day0.checkpoint import hub_range
from tests.checkpoint.asking import codes, failure, get, leftovers
from tests.checkpoint.build import SHARDS, header, pack
from tests.checkpoint.hub_server import Fault, Hub

REPO = "org/name"


def test_an_unreachable_hub_and_nothing_cached(hub: Hub, cache: Path):
    hub.close()
    message = failure(REPO, cache).message
    assert message.startswith(f"{REPO} cannot be read from {hub.url} and is not cached (")
    assert not cache.exists()


def test_an_empty_file_answers_416(hub: Hub, cache: Path):
    hub.update({"config.json": b"{}", "model.safetensors": b""})
    assert (
        "model.safetensors has no byte 0 (HTTP 416): the file is empty"
        in failure(REPO, cache).message
    )


@pytest.mark.parametrize("length", [5_000, 100_000], ids=["short header", "long header"])
def test_a_server_that_ignores_range_is_not_read_to_the_end(length: int, hub: Hub, cache: Path):
    size = 2**30
    raw = json.dumps(header({"t": ("U8", [size])})).encode().ljust(length)
    hub.update({"config.json": b"{}", "model.safetensors": pack(raw, 0)})
    hub.huge["model.safetensors"] = 8 + length + size
    hub.faults["model.safetensors"] = Fault(whole=True)
    found = get(cache)
    assert found.headers is not None
    assert found.headers.data_bytes == size
    assert len(hub.requests("/blobs/")) == 1
    assert hub.sent["model.safetensors"] < size // 16  # what the sockets buffer


def test_a_size_that_nobody_states(hub: Hub, cache: Path):
    hub.faults[SHARDS[0]] = Fault(no_total=True)
    found = get(cache)
    assert found.headers is not None
    assert len(found.headers.tensors) == 4


@pytest.mark.parametrize(
    "fault",
    [
        Fault(times=2, cut=0),
        Fault(times=2, cut=5),
        Fault(times=2, cut=100),
        Fault(times=2, status=503),
        Fault(times=2, status=429, headers={"Retry-After": "0"}),
        Fault(times=2, shift=3),
    ],
    ids=["cut at once", "cut in the length", "cut in the header", "503", "429", "wrong range"],
)
def test_a_passing_fault_is_tried_again(fault: Fault, hub: Hub, cache: Path):
    hub.faults[SHARDS[0]] = fault
    found = get(cache)
    assert found.headers is not None
    assert len(found.headers.tensors) == 4
    assert len(hub.requests(f"/blobs/{SHARDS[0]}")) == 3
    assert found.findings == ()


def test_a_connection_cut_in_the_middle_every_time(hub: Hub, cache: Path):
    hub.faults[SHARDS[1]] = Fault(cut=100)
    message = failure(REPO, cache).message
    assert message.startswith(f"org/name/{SHARDS[1]} cannot be read from {hub.url}")
    assert len(hub.requests(f"/blobs/{SHARDS[1]}")) == hub_range.ATTEMPTS
    assert leftovers(cache) == []
    assert not list(cache.rglob(f"{SHARDS[1]}*"))
    assert not list((cache / "repos").rglob("refs/*"))
    del hub.faults[SHARDS[1]]
    found = get(cache)
    assert found.headers is not None
    assert len(found.headers.tensors) == 4


def test_a_slow_answer_runs_into_the_timeout(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.15)
    monkeypatch.setattr(hub_range, "ATTEMPTS", 2)
    hub.faults[SHARDS[0]] = Fault(pause=0.6)
    message = failure(REPO, cache).message
    assert "cannot be read from" in message
    assert "Timeout" in message


def test_a_dripping_answer_is_given_up(hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hub_range, "SLOWEST_ANSWER", 0.06)  # of 5 seconds
    monkeypatch.setattr(hub_range, "ATTEMPTS", 2)
    hub.faults[SHARDS[0]] = Fault(drip=0.05)
    message = failure(REPO, cache).message
    assert "bytes came in the time allowed" in message


def test_a_listing_that_fails_twice_is_tried_again(hub: Hub, cache: Path):
    hub.faults["api"] = Fault(times=2, status=502)
    assert get(cache).headers is not None


@pytest.mark.parametrize("status", [500, 429])
def test_a_hub_that_is_down(status: int, hub: Hub, cache: Path):
    hub.faults["api"] = Fault(status=status)
    assert f"HTTP {status}" in failure(REPO, cache).message
    assert not list(cache.rglob("*.json"))
    hub.faults.clear()
    get(cache)
    hub.faults["api"] = Fault(status=status)
    assert codes(get(cache)) == [("cache-used", "warning")]


def test_a_small_file_cut_off_leaves_nothing_behind(hub: Hub, cache: Path):
    hub.faults["config.json"] = Fault(cut=5)
    assert "org/name/config.json cannot be read from" in failure(REPO, cache).message
    assert not list((cache / "hub").rglob("snapshots/*/config.json"))
    hub.faults.clear()
    assert get(cache).config["model_type"] == "any"


def test_a_server_that_is_no_hub(hub: Hub, cache: Path):
    hub.faults["api"] = Fault()  # 200 with an empty body
    assert "does not answer as a hub does" in failure(REPO, cache).message


@pytest.mark.parametrize("place", ["repos", "hub"])
def test_a_cache_that_cannot_be_written(place: str, hub: Hub, cache: Path):
    cache.mkdir()
    (cache / place).write_bytes(b"a file where a folder belongs")
    error = failure(REPO, cache)
    assert f"the cache {cache} cannot be written (" in error.message
    assert "--cache-dir" in error.hint


@pytest.mark.parametrize(
    "endpoint", ["hub.example", "ftp://hub.example", "http://hub:x", "http://"]
)
def test_an_endpoint_that_is_no_address(
    endpoint: str, hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    assert f"{endpoint} does not answer as a hub does" in failure(REPO, cache).message
