"""The header reader: what it accepts, and every way in which a file can be wrong."""

import json
from pathlib import Path

import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st

from day0.checkpoint.headers import DTYPE_BITS, TensorHeader
from day0.checkpoint.safetensors_header import (
    MAX_HEADER_BYTES,
    Interner,
    RawHeader,
    header_length,
    parse_header,
    read_header,
)
from day0.errors import Day0Error
from tests.checkpoint.build import ONE, header, pack, tensor_file


def parse(content: bytes, name: str = "model.safetensors") -> dict[str, TensorHeader]:
    """What read_header and parse_header do, on bytes."""
    length = header_length(content[:1024], len(content), name)
    raw = RawHeader(content[8 : 8 + length], len(content))
    return parse_header(raw, where=name, shard=name, interner=Interner())


def failure(content: bytes) -> Day0Error:
    """The error of a file; its text is one line, its hint another."""
    with pytest.raises(Day0Error) as caught:
        parse(content)
    error = caught.value
    assert error.exit_code == 2
    assert "\n" not in error.message
    assert error.hint
    assert "\n" not in error.hint
    assert "model.safetensors" in error.message
    return error


def with_entry(**changes: object) -> bytes:
    """A file of one tensor "t", BF16 [2, 3], with its entry changed."""
    entry = {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]} | changes
    return pack({"t": entry}, 12)


def test_a_valid_file_gives_its_tensors(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(tensor_file(ONE))
    found = parse_header(read_header(path), where=str(path), shard="s", interner=Interner())
    assert found == {
        "embed.weight": TensorHeader("BF16", (8, 6), 0, 96, "s"),
        "norm.weight": TensorHeader("F32", (6,), 96, 120, "s"),
    }
    assert [found["embed.weight"].elements, found["embed.weight"].bytes] == [48, 96]


@pytest.mark.parametrize("dtype", sorted(DTYPE_BITS))
def test_every_dtype_of_the_format(dtype: str):
    found = parse(tensor_file({"t": (dtype, [4, 2])}))
    assert found["t"].bytes == 8 * DTYPE_BITS[dtype] // 8


@pytest.mark.parametrize(
    ("shape", "num_bytes"), [([], 2), ([0], 0), ([3, 0, 5], 0), ([1, 1, 4], 8)], ids=str
)
def test_scalars_and_empty_tensors(shape: list[int], num_bytes: int):
    assert parse(tensor_file({"t": ("BF16", shape)}))["t"].bytes == num_bytes


def test_order_in_the_header_does_not_matter():
    table = header(ONE)
    backwards = dict(reversed(table.items()))
    assert parse(pack(backwards, 120)) == parse(pack(table, 120))


def test_equal_shapes_are_one_object():
    found = parse(tensor_file({f"t{i}": ("BF16", [3, 5]) for i in range(4)}))
    assert len({id(entry.shape) for entry in found.values()}) == 1


def test_names_beyond_ascii_and_padding():
    table = json.dumps(header({"größe.重": ("F16", [2])}), ensure_ascii=False).encode()
    assert list(parse(pack(table + b" " * 7, 4))) == ["größe.重"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has 0 bytes; a safetensors file has at least 10"),
        (b"1234567", "has 7 bytes; a safetensors file has at least 10"),
        ((0).to_bytes(8, "little") + b"{}", "has a header length of 0 bytes; the least is 2"),
        (
            (50).to_bytes(8, "little") + b"{}",
            "has a header length of 50 bytes and only 10 bytes in all; at most 2 fit",
        ),
        (
            (2**61).to_bytes(8, "little") + b"{}",
            f"has a header length of {2**61:,} bytes; the format allows 100,000,000",
        ),
        (pack(b"[]", 0), "has a header that starts with b'[]'; it starts with {"),
        (pack(b" {}", 0), "has a header that starts with b' {}'; it starts with {"),
        (pack(b"{nope}", 0), "is not JSON"),
        (pack(b'{"a": 1} {}', 0), "is not JSON"),
        (pack(b'{"t": NaN}', 0), "is not JSON"),
        (pack(b'{"\xff": 1}', 0), "is not UTF-8 (byte 0xff at 2)"),
        (pack(b'{"t":' + b"[" * 90_000 + b"]" * 90_000 + b"}", 0), "nested too deeply"),
        (pack(b'{"t": ' + b"9" * 5000 + b"}", 0), "is not JSON"),
        (pack({"__metadata__": 3}, 0), "has a __metadata__ that is a number; it is an object"),
        (pack({"__metadata__": {"a": 3}}, 0), "has a number in __metadata__ under 'a'"),
        (pack({"t": 5}, 0), "describes tensor 't' by a number; an object is expected"),
        (pack({"t": {"dtype": "BF16"}}, 0), "states no shape for tensor 't'"),
        (pack(b'{"\\ud800": {}}', 0), "names are Unicode text without lone surrogates"),
        (with_entry(dtype="Q4_K"), "gives tensor 't' the dtype 'Q4_K'; known are BOOL, U8"),
        (with_entry(dtype=["BF16"]), "gives tensor 't' the dtype ['BF16']; known are BOOL"),
        (with_entry(shape={"a": 1}), "gives tensor 't' a shape that is an object"),
        (with_entry(shape="23"), "gives tensor 't' a shape that is a string"),
        (with_entry(shape=[2, -3]), "a shape with the dim -3; dims are whole numbers from 0"),
        (with_entry(shape=[2, True]), "a shape with the dim True; dims are whole numbers"),
        (with_entry(shape=[2, 3.0]), "a shape with the dim 3.0; dims are whole numbers"),
        (with_entry(shape=[2, None]), "a shape with the dim None; dims are whole numbers"),
        (with_entry(shape=[10**30]), f"a shape with the dim {10**30}; dims are whole numbers"),
        (with_entry(shape=[10**2000]), "a shape with the dim of about 2^6643; dims are whole"),
        (with_entry(shape=[2**62, 4]), "gives tensor 't' more than 9223372036854775807 elements"),
        (with_entry(data_offsets=[0]), "the data_offsets [0]; two whole numbers are expected"),
        (with_entry(data_offsets=12), "the data_offsets 12; two whole numbers are expected"),
        (with_entry(data_offsets=[0, 12.0]), "the data_offsets [0, 12.0]; two whole numbers"),
        (with_entry(data_offsets=[False, 12]), "the data_offsets [False, 12]; two whole"),
        (with_entry(data_offsets=[12, 0]), "[12, 0]; 0 <= start <= stop is expected"),
        (with_entry(data_offsets=[-12, 0]), "[-12, 0]; 0 <= start <= stop is expected"),
        (with_entry(data_offsets=[0, 10]), "10 bytes; BF16 of shape [2, 3] takes 12"),
        (with_entry(dtype="F4", shape=[3, 3], data_offsets=[0, 5]), "which is 36 bits; only whole"),
        (with_entry(dtype="F4", shape=[4, 4]), "12 bytes; F4 of shape [4, 4] takes 8"),
        (with_entry(dtype="F6_E2M3", shape=[2, 2], data_offsets=[0, 12]), "takes 3"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)  # fmt: skip
def test_damage_is_named(content: bytes, words: str):
    assert words in failure(content).message


def test_duplicate_tensor_names():
    entry = '{"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}'
    message = failure(pack(f'{{"twice": {entry}, "twice": {entry}}}'.encode(), 1)).message
    assert message == ("the header of model.safetensors states 'twice' twice; names must be unique")


def test_overlap_names_both_tensors():
    table = header({"a": ("U8", [8]), "b": ("U8", [8])})
    table["b"]["data_offsets"] = [4, 12]
    assert failure(pack(table, 12)).message == (
        "model.safetensors places tensor 'b' at byte 4, inside tensor 'a'; the next free byte is 8"
    )


def test_hole_names_its_place():
    table = header({"a": ("U8", [8]), "b": ("U8", [8])})
    table["b"]["data_offsets"] = [11, 19]
    assert failure(pack(table, 19)).message == (
        "model.safetensors leaves a hole of 3 bytes before tensor 'b'; "
        "byte 8 must follow tensor 'a'"
    )


def test_hole_at_the_start():
    table = {"a": {"dtype": "U8", "shape": [2], "data_offsets": [3, 5]}}
    assert "hole of 3 bytes before tensor 'a'; byte 0 must follow the start of the data" in (
        failure(pack(table, 5)).message
    )


def test_a_file_cut_off_in_its_data():
    assert failure(tensor_file(ONE)[:-5]).message == (
        "model.safetensors is cut off: it holds 115 data bytes; "
        "tensor 'norm.weight' ends at byte 120"
    )


def test_case_194_git_lfs_pointer(tmp_path: Path):
    path = tmp_path / "model-00001-of-00002.safetensors"
    path.write_text(
        "version https://git-lfs.github.com/spec/v1\n"
        f"oid sha256:{'0123456789abcdef' * 4}\nsize 5234139343\n"
    )
    with pytest.raises(Day0Error) as caught:
        read_header(path)
    assert caught.value.message == (
        f"{path} is a git-lfs pointer, real size 5,234,139,343 bytes - not downloaded; "
        "the file itself is needed"
    )
    assert "git lfs pull" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ((0).to_bytes(8, "little"), "header length of 0"),
        ((999).to_bytes(8, "little") + b"{}", "header length of 999"),
        (pack(b"{oops", 0), "is not JSON"),
        (pack({"a": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}, 3), "hole of 1 bytes"),
    ],
    ids=["zero length", "longer than the file", "not JSON", "hole"],
)
def test_case_196_own_checks_and_own_words(content: bytes, words: str):
    assert words in failure(content).message


@pytest.mark.parametrize("length", [99_993, 99_994, 100_000, 100_001])
def test_case_202_header_lengths_around_a_block(length: int, tmp_path: Path):
    raw = json.dumps(header(ONE)).encode().ljust(length)
    assert len(raw) == length
    path = tmp_path / "model.safetensors"
    path.write_bytes(pack(raw, 120))
    found = parse_header(read_header(path), where="w", shard="s", interner=Interner())
    assert list(found) == list(ONE)


def test_case_204_trailing_byte_is_refused_with_both_sizes():
    message = failure(tensor_file(ONE) + b"\0").message
    assert message == (
        "model.safetensors has 1 bytes after its last tensor: 121 data bytes; "
        "the header accounts for 120"
    )


def test_the_longest_header_is_the_formats_own_limit():
    assert header_length(MAX_HEADER_BYTES.to_bytes(8, "little"), None, "f") == 100_000_000
    with pytest.raises(Day0Error, match="100,000,001 bytes; the format allows 100,000,000"):
        header_length((MAX_HEADER_BYTES + 1).to_bytes(8, "little"), None, "f")


def test_unreadable_files(tmp_path: Path):
    with pytest.raises(Day0Error, match="cannot be read: No such file"):
        read_header(tmp_path / "absent.safetensors")
    with pytest.raises(Day0Error, match="cannot be read: Is a directory"):
        read_header(tmp_path)


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_fuzz_any_bytes(content: bytes):
    outcome(content)


@settings(max_examples=300)
@given(st.binary(max_size=120), st.integers(0, 20))
def test_fuzz_any_header_bytes(raw: bytes, data_bytes: int):
    outcome(pack(raw, data_bytes))


_NUMBERS = st.integers(-3, 20) | st.sampled_from(
    [2**31, 2**63 - 1, 2**63, 2**64, 10**30, -(10**30)]
)
_JSON = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)  # fmt: skip
_ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from([*DTYPE_BITS, "bf16", ""]) | _JSON,
        "shape": st.lists(_NUMBERS, max_size=4) | _JSON,
        "data_offsets": st.lists(_NUMBERS, min_size=2, max_size=2) | _JSON,
        "more": _JSON,
    },
)


@settings(max_examples=400)
@given(
    st.dictionaries(st.sampled_from(["a", "b", "c", "__metadata__", "ü"]), _ENTRY | _JSON),
    st.integers(0, 40),
)
def test_fuzz_any_entries(table: dict[str, object], data_bytes: int):
    outcome(pack(table, data_bytes))


@settings(max_examples=400)
@given(st.data())
def test_fuzz_mutated_files(data: st.DataObject):
    content = bytearray(tensor_file(ONE))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        action = data.draw(st.sampled_from(["set", "cut", "insert", "digit"]))
        if action == "set":
            content[place] = data.draw(st.integers(0, 255))
        elif action == "cut":
            del content[place : place + data.draw(st.integers(1, 9))]
        elif action == "insert":
            content[place:place] = data.draw(st.binary(min_size=1, max_size=9))
        else:
            content[place] = data.draw(st.sampled_from(b'0123456789[],{}"-e.'))
        if not content:
            break
    outcome(bytes(content))


def outcome(content: bytes) -> None:
    """A parsed result or a Day0Error of one line; what the library refuses is not accepted."""
    result = attempt(content)
    if isinstance(result, Day0Error):
        assert "\n" not in result.message
        assert len(result.message) < 1000
        return
    covered = sum(entry.bytes for entry in result.values())
    assert covered + 8 + int.from_bytes(content[:8], "little") == len(content)
    # deserialize checks the header as the library's own readers do, and copies the data.
    assert {name for name, _ in safetensors.deserialize(content)} == set(result)


def attempt(content: bytes) -> dict[str, TensorHeader] | Day0Error:
    """What parse gives, a Day0Error returned; anything else that is raised fails the test."""
    try:
        return parse(content)
    except Day0Error as error:
        return error
