"""Shards against their index: absent, in excess, twice, in the wrong place."""

import gc
import json
from pathlib import Path

import pytest

from day0.checkpoint.load import load
from tests.checkpoint.asking import codes, failure
from tests.checkpoint.build import (
    INDEX,
    SECOND,
    SHARDS,
    sharded_files,
    tensor_file,
    with_index,
    write,
)


def test_case_197_one_of_two_shards(tmp_path: Path):
    files = sharded_files()
    del files[SHARDS[1]]
    message = failure(write(tmp_path, files)).message
    assert message == (
        "1 of 2 shards present, total unknown (>= 72 stored elements, 120 bytes): "
        f"{tmp_path / INDEX} also names {SHARDS[1]}, and all must be there"
    )


def test_case_209_26_of_46_shards(tmp_path: Path):
    names = [f"model-{number:05d}-of-00046.safetensors" for number in range(1, 47)]
    weight_map = {f"t{number}": name for number, name in enumerate(names)}
    files = {"config.json": b"{}", INDEX: json.dumps({"weight_map": weight_map}).encode()}
    for number, name in enumerate(names[:26]):
        files[name] = tensor_file({f"t{number}": ("BF16", [3, 5])})
    message = failure(write(tmp_path, files)).message
    assert message == (
        "26 of 46 shards present, total unknown (>= 390 stored elements, 780 bytes): "
        f"{tmp_path / INDEX} also names {names[26]}, and all must be there"
    )


def test_a_dangling_link_is_an_absent_shard(tmp_path: Path):
    write(tmp_path, sharded_files())
    (tmp_path / SHARDS[0]).unlink()
    (tmp_path / SHARDS[0]).symlink_to(tmp_path / "blobs" / "gone")
    assert failure(tmp_path).message.startswith("1 of 2 shards")


def test_a_shard_with_a_tensor_the_index_does_not_name(tmp_path: Path):
    message = failure(write(tmp_path, with_index(sharded_files(), norm__weight=None))).message
    assert message == (
        f"{SHARDS[1]} holds tensor 'norm.weight', which {tmp_path / INDEX} does not name "
        "(1 such tensors); the index must name all"
    )


def test_an_index_entry_that_no_shard_holds(tmp_path: Path):
    files = with_index(sharded_files(), ghost=SHARDS[0])
    assert failure(write(tmp_path, files)).message == (
        f"{tmp_path / INDEX} places tensor 'ghost' in {SHARDS[0]}, "
        "but it is in none of the shards; both must agree"
    )


def test_an_index_entry_with_the_wrong_shard(tmp_path: Path):
    files = with_index(sharded_files(), norm__weight=SHARDS[0])
    assert (
        f"in {SHARDS[0]}, but it stands in {SHARDS[1]}" in failure(write(tmp_path, files)).message
    )


def test_a_tensor_in_two_shards(tmp_path: Path):
    files = sharded_files()
    files[SHARDS[1]] = tensor_file(SECOND | {"embed.weight": ("BF16", [8, 6])})
    message = failure(write(tmp_path, files)).message
    assert message == (
        f"tensor 'embed.weight' stands in {SHARDS[0]} and in {tmp_path / SHARDS[1]}; "
        "one shard is allowed (1 such tensors)"
    )


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (b"", f"{INDEX} is empty"),
        (b"{", f"{INDEX} is not JSON"),
        (b"[]", f"{INDEX} holds an array"),
        (b"{}", "has a weight_map that is absent or null"),
        (b'{"weight_map": {}}', "has a weight_map that is empty"),
        (b'{"weight_map": [1]}', "has a weight_map that is an array"),
        (b'{"weight_map": {"a": 3}}', "maps 'a' to a number; a file name is expected"),
        (b'{"weight_map": {"a": "s", "a": "s"}}', "states 'a' twice; names must be unique"),
        (b'{"weight_map": {"a": "../x.safetensors"}}', "names the shard '../x.safetensors'"),
        (b'{"weight_map": {"a": "/x.safetensors"}}', "names the shard '/x.safetensors'"),
        (b'{"weight_map": {"a": "x.bin"}}', "names the shard 'x.bin'; a .safetensors file"),
        (b'{"weight_map": {"a": ""}}', "names the shard ''"),
        (b'{"weight_map": {"a": "x\\n.safetensors"}}', "names the shard 'x\\n.safetensors'"),
        (b"version https://git-lfs.github.com/spec/v1\nsize 9\n", "is a git-lfs pointer"),
    ],
    ids=lambda value: value[:45].decode() if isinstance(value, bytes) else "",
)
def test_a_damaged_index(index: bytes, words: str, tmp_path: Path):
    assert words in failure(write(tmp_path, sharded_files() | {INDEX: index})).message


def test_a_wrong_total_in_the_index_is_only_information(tmp_path: Path):
    files = sharded_files()
    index = json.loads(files[INDEX])
    index["metadata"]["total_size"] += 1
    found = load(str(write(tmp_path, files | {INDEX: json.dumps(index).encode()})))
    assert codes(found) == [("index-total", "info")]


def test_case_204_a_shard_with_a_trailing_byte_is_refused(tmp_path: Path):
    files = sharded_files()
    files[SHARDS[0]] += b"\0"
    message = failure(write(tmp_path, files)).message
    assert str(tmp_path / SHARDS[0]) in message
    assert "121 data bytes; the header accounts for 120" in message


def test_a_truncated_shard(tmp_path: Path):
    files = sharded_files()
    files[SHARDS[1]] = files[SHARDS[1]][:-1]
    assert f"{tmp_path / SHARDS[1]} is cut off" in failure(write(tmp_path, files)).message


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(was_enabled: bool, tmp_path: Path):
    folder = write(tmp_path, with_index(sharded_files(), ghost=SHARDS[0]))
    before = gc.isenabled()
    (gc.enable if was_enabled else gc.disable)()
    try:
        failure(folder)
        assert gc.isenabled() == was_enabled
    finally:
        (gc.enable if before else gc.disable)()
