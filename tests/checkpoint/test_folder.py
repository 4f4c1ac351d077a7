"""Folders: single file, shards, several copies, and every way they can be incomplete."""

import json
import os
from pathlib import Path

import pytest

from day0.checkpoint.load import load
from tests.checkpoint.asking import codes, failure
from tests.checkpoint.build import (
    FIRST,
    INDEX,
    ONE,
    SECOND,
    SHARDS,
    header,
    num_bytes,
    pack,
    sharded_files,
    single_files,
    tensor_file,
    write,
)


def sparse(path: Path, specs: dict[str, tuple[str, list[int]]]) -> None:
    """A safetensors file of its true length with nothing written into its data."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        head = pack(header(specs), 0)
        file.write(head)
        file.truncate(len(head) + sum(num_bytes(*spec) for spec in specs.values()))


def test_single_file(tmp_path: Path):
    found = load(str(write(tmp_path, single_files())))
    assert found.headers is not None
    assert (found.id, found.revision, found.origin) == (str(tmp_path), "", "folder")
    assert found.config == {"model_type": "any", "hidden_size": 6}
    assert found.headers.shards == ("model.safetensors",)
    assert list(found.headers.tensors) == list(ONE)
    assert found.headers.data_bytes == 120
    assert found.read == ("config.json", "model.safetensors")
    assert found.findings == ()


def test_shards_index_and_companions(tmp_path: Path):
    found = load(str(write(tmp_path, sharded_files())))
    assert found.headers is not None
    assert found.headers.shards == SHARDS
    places = {name: entry.shard for name, entry in found.headers.tensors.items()}
    assert places == dict.fromkeys(FIRST, SHARDS[0]) | dict.fromkeys(SECOND, SHARDS[1])
    assert found.generation_config == {"eos_token_id": 7}
    assert found.tokenizer_config == {"model_max_length": 99}
    assert found.quant_sidecar == {"quantization": {"quant_algo": "FP8"}}
    assert set(found.read) == set(sharded_files())
    assert found.findings == ()


def test_progress_counts_shards(tmp_path: Path):
    seen: list[tuple[int, int, str]] = []
    load(str(write(tmp_path, sharded_files())), progress=lambda *step: seen.append(step))
    assert seen == [(1, 2, SHARDS[0]), (2, 2, SHARDS[1])]


@pytest.mark.parametrize(
    "names",
    [
        ("consolidated.safetensors",),
        ("consolidated-00001-of-00002.safetensors", "consolidated-00002-of-00002.safetensors"),
        ("consolidated.00.safetensors", "consolidated.01.safetensors"),
        ("weights.safetensors",),
    ],
    ids=lambda names: names[0],
)
def test_other_names_of_the_weights(names: tuple[str, ...], tmp_path: Path):
    files = {"config.json": b"{}"}
    for number, name in enumerate(names):
        files[name] = tensor_file({f"t{number}": ("F32", [number + 2])})
    found = load(str(write(tmp_path, files)))
    assert found.headers is not None
    assert found.headers.shards == names
    assert found.findings == ()


def test_consolidated_with_its_own_index(tmp_path: Path):
    files = sharded_files()
    index = files.pop(INDEX).decode().replace("model-", "consolidated-")
    renamed = {name.replace("model-", "consolidated-"): raw for name, raw in files.items()}
    renamed["consolidated.safetensors.index.json"] = index.encode()
    found = load(str(write(tmp_path, renamed)))
    assert found.headers is not None
    assert len(found.headers.tensors) == 4
    assert "consolidated.safetensors.index.json" in found.read


def test_config_alone(tmp_path: Path):
    write(tmp_path, {"config.json": b"{}"})
    found = load(str(tmp_path))
    assert (found.headers, found.findings) == (None, ())
    assert "has no safetensors weights; --require-headers needs them" in (
        failure(tmp_path, require_headers=True).message
    )


def test_pickle_files_are_reported_and_never_opened(tmp_path: Path):
    write(tmp_path, {"config.json": b"{}", "pytorch_model.bin": b"", "training_args.bin": b""})
    os.mkfifo(tmp_path / "consolidated.00.pth")  # opening it would wait for ever
    found = load(str(tmp_path))
    assert found.headers is None
    assert codes(found) == [("pickle-only", "warning")]
    assert found.findings[0].evidence == ("pytorch_model.bin",)
    message = failure(tmp_path, require_headers=True).message
    assert "but pickle files (pytorch_model.bin)" in message


def test_case_77_one_copy_is_counted_and_the_other_named(tmp_path: Path):
    llama, mistral = tmp_path / "a", tmp_path / "b"
    gib = 2**30
    specs = [{f"t{i}": ("BF16", [1915, 1024, 1024])} for i in range(4)]
    for number, spec in enumerate(specs):
        sparse(llama / f"model-0000{number + 1}-of-00004.safetensors", spec)
    weight_map = {f"t{i}": f"model-0000{i + 1}-of-00004.safetensors" for i in range(4)}
    write(llama, {"config.json": b"{}", INDEX: json.dumps({"weight_map": weight_map}).encode()})
    write(llama, {"original/consolidated.00.pth": b"x", "optimizer.pt": b"x"})
    write(llama, {"checkpoint-100/model.safetensors": b"x", "checkpoint-100/optimizer.pt": b"x"})
    found = load(str(llama))
    assert found.headers is not None
    assert round(found.headers.data_bytes / gib, 2) == 14.96
    assert codes(found) == [("left-out", "info")]
    assert found.findings[0].evidence == (
        "checkpoint-100/ (2 files)",
        "optimizer.pt",
        "original/",
    )

    thirds = [{f"t{i}": ("BF16", [2304, 1024, 1024])} for i in range(3)]
    for number, spec in enumerate(thirds):
        sparse(mistral / f"model-0000{number + 1}-of-00003.safetensors", spec)
    sparse(mistral / "consolidated.safetensors", {k: v for s in thirds for k, v in s.items()})
    weight_map = {f"t{i}": f"model-0000{i + 1}-of-00003.safetensors" for i in range(3)}
    write(mistral, {"config.json": b"{}", INDEX: json.dumps({"weight_map": weight_map}).encode()})
    found = load(str(mistral))
    assert found.headers is not None
    assert found.headers.data_bytes / gib == 13.5
    assert found.findings[0].evidence == ("consolidated.safetensors",)


def test_case_78_only_the_files_of_the_index_are_read(tmp_path: Path):
    copies = {
        "original/model.safetensors": b"not even a header",
        "metal/model.bin": b"",
        "pytorch_model.bin": b"",
    }
    found = load(str(write(tmp_path, sharded_files() | copies)))
    assert found.headers is not None
    assert found.headers.shards == SHARDS
    assert codes(found) == [("left-out", "info")]
    assert found.findings[0].evidence == ("metal/", "original/", "pytorch_model.bin")


def test_index_before_single_before_consolidated(tmp_path: Path):
    copies = {"model.safetensors": b"", "consolidated.safetensors": b""}
    found = load(str(write(tmp_path, sharded_files() | copies)))
    assert found.headers is not None
    assert found.headers.shards == SHARDS
    assert found.findings[0].evidence == ("consolidated.safetensors", "model.safetensors")
    (tmp_path / INDEX).unlink()
    (tmp_path / "model.safetensors").write_bytes(tensor_file(ONE))
    again = load(str(tmp_path))
    assert again.headers is not None
    assert again.headers.shards == ("model.safetensors",)


def test_a_safetensors_file_that_nothing_names_is_a_warning(tmp_path: Path):
    found = load(str(write(tmp_path, sharded_files() | {"mtp.safetensors": b"x"})))
    assert codes(found) == [("unindexed-shard", "warning")]
    assert found.findings[0].evidence == ("mtp.safetensors",)


def test_shards_without_an_index(tmp_path: Path):
    files = sharded_files()
    del files[INDEX]
    found = load(str(write(tmp_path, files)))
    assert found.headers is not None
    assert len(found.headers.tensors) == 4
    assert codes(found) == [("index-absent", "warning")]
    (tmp_path / SHARDS[1]).unlink()
    assert failure(tmp_path).message == (
        "1 of 2 shards present, total unknown (>= 72 stored elements, 120 bytes): "
        "their names promise more, and all must be there"
    )


def test_shards_counted_from_zero_without_an_index(tmp_path: Path):
    files = {"config.json": b"{}"}
    for number in range(3):
        files[f"model-0000{number}-of-00002.safetensors"] = tensor_file({f"t{number}": ("U8", [2])})
    found = load(str(write(tmp_path, files)))
    assert found.headers is not None
    assert len(found.headers.shards) == 3


def test_several_files_and_nothing_that_chooses(tmp_path: Path):
    files = {"config.json": b"{}", "a.safetensors": b"", "b.safetensors": b""}
    found = load(str(write(tmp_path, files)))
    assert found.headers is None
    assert codes(found) == [("weights-unclear", "warning")]


def test_an_adapter_is_not_the_model(tmp_path: Path):
    found = load(str(write(tmp_path, {"config.json": b"{}", "adapter_model.safetensors": b"x"})))
    assert (found.headers, found.findings) == (None, ())


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "config.json does not exist; a checkpoint has a config.json"),
        (
            {"params.json": b"{}", "consolidated.safetensors": b"x"},
            "config.json does not exist, only params.json (Mistral's own format)",
        ),
        ({"a.gguf": b"x"}, "config.json does not exist, only GGUF files"),
        ({"pytorch_model.bin": b""}, "config.json does not exist beside pytorch_model.bin"),
    ],
    ids=["empty folder", "params.json", "gguf", "pickle"],
)
def test_no_config(files: dict[str, bytes], words: str, tmp_path: Path):
    assert words in failure(write(tmp_path, files)).message


def test_unreadable_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path, single_files())

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)  # root may read everything
    assert failure(tmp_path).message == (
        f"{tmp_path / 'config.json'} cannot be read: Permission denied"
    )


def test_companions_are_checked_too(tmp_path: Path):
    files = single_files() | {"tokenizer_config.json": b"{"}
    assert "tokenizer_config.json is not JSON" in failure(write(tmp_path, files)).message


def test_remote_code_is_reported_and_not_run(tmp_path: Path):
    files = single_files()
    files["config.json"] = b'{"auto_map": {"AutoConfig": "configuration_x.X"}}'
    files["configuration_x.py"] = b"raise SystemExit('executed')"
    assert codes(load(str(write(tmp_path, files)))) == [("remote-code", "info")]
