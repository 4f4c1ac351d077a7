"""The real hub client against a hub on loopback: what is fetched, and who may."""

import json
from pathlib import Path

import pytest

from day0.checkpoint.load import load
from day0.errors import Day0Error
from tests.checkpoint.asking import codes, failure, get, leftovers
from tests.checkpoint.build import SHARDS, header, pack, sharded_files, single_files, write
from tests.checkpoint.hub_server import Hub

REPO = "org/name"


def test_a_checkpoint_from_the_hub_equals_the_same_folder(hub: Hub, cache: Path, tmp_path: Path):
    found = get(cache)
    local = load(str(write(tmp_path / "local", hub.files)))
    assert (found.id, found.revision, found.origin) == (REPO, hub.commit, "hub")
    assert found.headers == local.headers
    assert found.config == local.config
    assert found.quant_sidecar == local.quant_sidecar
    assert found.tokenizer_config == local.tokenizer_config
    assert found.read == local.read
    assert found.findings == ()
    assert leftovers(cache) == []


def test_only_the_small_files_and_ranges_of_the_shards_are_fetched(hub: Hub, cache: Path):
    hub.update(sharded_files() | {"README.md": b"x", "original/x.pth": b"x", "model.py": b"x"})
    found = get(cache)
    assert codes(found) == [("left-out", "info")]
    fetched = {r.path.rpartition("/")[2] for r in hub.log if "/resolve/" in r.path}
    assert fetched == set(sharded_files())
    assert [r.range for r in hub.requests("/blobs/")] == ["bytes=0-65535"] * 2


def test_single_file_and_consolidated(hub: Hub, cache: Path):
    for name in ("model.safetensors", "consolidated.safetensors"):
        files = single_files()
        hub.update({"config.json": b"{}", name: files["model.safetensors"]})
        found = get(cache)
        assert found.headers is not None
        assert found.headers.shards == (name,)


@pytest.mark.parametrize("length", [65_527, 65_528, 65_529, 99_993, 99_994, 100_000, 100_001])
def test_case_202_header_lengths_around_a_block(length: int, hub: Hub, cache: Path):
    raw = json.dumps(header({"t": ("U8", [70_000])})).encode().ljust(length)
    hub.update({"config.json": b"{}", "model.safetensors": pack(raw, 70_000)})
    found = get(cache)
    assert found.headers is not None
    assert found.headers.tensors["t"].stop == 70_000
    ranges = [request.range for request in hub.requests("/blobs/")]
    more = [f"bytes=65536-{8 + length - 1}"] if 8 + length > 65_536 else []
    assert ranges == ["bytes=0-65535", *more]


def test_a_small_file_is_shorter_than_the_first_range(hub: Hub, cache: Path):
    hub.update(single_files())
    assert get(cache).headers is not None
    hub.update({"config.json": b"{}", "model.safetensors": b"12345"})
    assert failure(REPO, cache).message == (
        "org/name/model.safetensors has 5 bytes; a safetensors file has at least 10"
    )


def test_a_repository_that_does_not_exist(hub: Hub, cache: Path):
    error = failure("org/other", cache)
    assert error.message == (
        "org/other does not exist or needs a login (HTTP 401); "
        "allowed is a public repository, or a token that may read it"
    )
    assert not cache.exists()


def test_a_repository_that_does_not_exist_for_a_known_user(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_TOKEN", "hf_known")
    message = failure("org/other", cache).message
    assert message == f"org/other was not found on {hub.url}; allowed is an existing org/name"


def test_a_revision_that_does_not_exist(hub: Hub, cache: Path):
    error = failure(f"{REPO}@refs/pr/7", cache)
    assert error.message == (
        "org/name has no revision 'refs/pr/7'; allowed is a branch, a tag or a commit of it"
    )
    assert hub.log[0].path == "/api/models/org/name/revision/refs/pr/7"


def test_a_private_repository(hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch):
    hub.private, hub.token = True, "hf_mine"
    assert "does not exist or needs a login (HTTP 401)" in failure(REPO, cache).message
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    assert "needs a login (HTTP 401)" in failure(REPO, cache).message
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    assert get(cache).headers is not None


@pytest.mark.parametrize(("token", "status"), [("", 401), ("hf_other", 403)])
def test_a_gated_repository(
    token: str, status: int, hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    hub.gated = True
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
        hub.token = ""  # known, and not on the list
    else:
        hub.token = "hf_granted"
    error = failure(REPO, cache)
    assert error.message == (
        f"org/name/config.json is gated and this account may not read it (HTTP {status}); "
        "access must be granted"
    )
    assert "HF_TOKEN" in error.hint


def test_the_token_stays_on_the_hub(hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch):
    hub.gated, hub.token = True, "hf_granted"
    monkeypatch.setenv("HF_TOKEN", "hf_granted")
    assert get(cache).headers is not None
    assert {r.token for r in hub.log if "/resolve/" in r.path} == {"Bearer hf_granted"}
    assert {r.token for r in hub.requests("/blobs/")} == {""}


def test_a_shard_of_the_index_that_the_hub_does_not_have(hub: Hub, cache: Path):
    files = sharded_files()
    del files[SHARDS[0]]
    hub.update(files)
    assert failure(REPO, cache).message.startswith("1 of 2 shards present, total")


def test_a_corrupt_header_on_the_hub_is_named_like_a_local_one(hub: Hub, cache: Path):
    hub.update(sharded_files() | {SHARDS[1]: pack(b"{oops", 0)})
    assert f"the header of org/name/{SHARDS[1]} is not JSON" in failure(REPO, cache).message


def test_no_config_on_the_hub(hub: Hub, cache: Path):
    hub.update({"model.gguf": b"x"})
    assert "org/name/config.json does not exist, only GGUF files" in failure(REPO, cache).message


def test_pickles_on_the_hub(hub: Hub, cache: Path):
    hub.update({"config.json": b"{}", "pytorch_model.bin": b"x"})
    assert codes(get(cache)) == [("pickle-only", "warning")]
    assert not hub.requests("pytorch_model.bin")
    with pytest.raises(Day0Error, match="--require-headers needs them"):
        get(cache, require_headers=True)
