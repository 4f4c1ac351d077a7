"""The header of one safetensors file, read and checked without touching its data.

The format (huggingface/safetensors, README "Format"): 8 bytes little-endian N, then N bytes of
JSON that start with "{" and may end in spaces, then the data. The JSON maps names to dtype, shape
and data_offsets, which count from the first data byte; "__metadata__" maps strings to strings.
The data is covered without overlap or hole, to the last byte: trailing bytes are refused.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from day0.checkpoint.headers import DTYPE_BITS, TensorHeader
from day0.checkpoint.json_file import kind_of, lfs_size, parse_object, pointer_error
from day0.errors import Day0Error

LENGTH_BYTES = 8
# The limit that the safetensors library itself sets (MAX_HEADER_SIZE in its tensor.rs).
MAX_HEADER_BYTES = 100_000_000
# Dims and byte counts are 64-bit in every reader of the format.
MAX_COUNT = 2**63 - 1

_DTYPES = {name: (name, bits) for name, bits in DTYPE_BITS.items()}


class RawHeader(NamedTuple):
    """The JSON bytes of a header, and the size of the whole file (None where nobody states it)."""

    raw: bytes
    file_bytes: int | None


class Interner:
    """Keeps one object for each distinct shape, so that half a million tensors stay small."""

    __slots__ = ("shapes",)

    def __init__(self) -> None:
        self.shapes: dict[tuple[int, ...], tuple[int, ...]] = {}


def header_length(prefix: bytes, file_bytes: int | None, where: str) -> int:
    """Check the first bytes of a file and return the length of its JSON header in bytes.

    `prefix` holds at least the first 8 bytes where the file has as many, more for the detection
    of git-lfs pointers. Raises Day0Error when no header of that length can stand there.
    """
    size = lfs_size(prefix)
    if size is not None:
        raise pointer_error(where, size)
    if len(prefix) < LENGTH_BYTES:
        raise _broken(where, f"has {len(prefix)} bytes", "a safetensors file has at least 10")
    length = int.from_bytes(prefix[:LENGTH_BYTES], "little")
    if length < 2:
        raise _broken(where, f"has a header length of {length} bytes", "the least is 2")
    if length > MAX_HEADER_BYTES:
        raise _broken(
            where,
            f"has a header length of {length:,} bytes",
            f"the format allows {MAX_HEADER_BYTES:,}",
        )
    if file_bytes is not None and LENGTH_BYTES + length > file_bytes:
        raise _broken(
            where,
            f"has a header length of {length:,} bytes and only {file_bytes:,} bytes in all",
            f"at most {max(file_bytes - LENGTH_BYTES, 0):,} fit",
        )
    return length


def read_header(path: Path) -> RawHeader:
    """Read the header of a local file; Day0Error when it is none or cannot be read."""
    where = str(path)
    try:
        with path.open("rb") as file:
            file_bytes = file.seek(0, 2)
            file.seek(0)
            # 1 KiB shows a git-lfs pointer whole; the rest is asked for exactly.
            prefix = file.read(1024)
            length = header_length(prefix, file_bytes, where)
            file.seek(LENGTH_BYTES)
            raw = file.read(length)
    except OSError as error:
        raise Day0Error(
            f"{where} cannot be read: {error.strerror or error}",
            hint=f"check that {where} is a readable file",
        ) from error
    if len(raw) != length:
        raise _broken(where, f"ended after {len(raw):,} header bytes", f"{length:,} are promised")
    return RawHeader(raw, file_bytes)


def parse_header(
    header: RawHeader, *, where: str, shard: str, interner: Interner
) -> dict[str, TensorHeader]:
    """Parse and check a header; `shard` is the name stored in every TensorHeader.

    Raises Day0Error naming the file, and the tensor where one is at fault.
    """
    if not header.raw.startswith(b"{"):
        raise _broken(
            where, f"has a header that starts with {header.raw[:8]!r}", "it starts with {"
        )
    table = parse_object(header.raw, f"the header of {where}")
    _check_metadata(table.pop("__metadata__", None), where)
    tensors: dict[str, TensorHeader] = {}
    shapes = interner.shapes
    position = 0
    in_order = True
    for name, entry in table.items():
        try:
            dtype, bits = _DTYPES[entry["dtype"]]
            shape = tuple(entry["shape"])
            start, stop = entry["data_offsets"]
            total = 1
            for dim in shape:
                if type(dim) is not int or not 0 <= dim <= MAX_COUNT or total > MAX_COUNT:
                    raise _BadEntry
                total *= dim
            if type(start) is not int or type(stop) is not int or not name.isascii():
                raise _BadEntry
            if (stop - start) * 8 != total * bits or start < 0 or total > MAX_COUNT:
                raise _BadEntry
        except (_BadEntry, KeyError, TypeError, ValueError):
            _check_entry(name, entry, where)
            # Only a name beyond ASCII gets here: it took the slow path and is sound.
            dtype = _DTYPES[entry["dtype"]][0]
            shape = tuple(entry["shape"])
            start, stop = entry["data_offsets"]
        if start == position:
            start = position  # the same int object: 16 MB less on half a million tensors
        else:
            in_order = False
        position = stop
        shape = shapes.setdefault(shape, shape)
        tensors[name] = TensorHeader(dtype, shape, start, stop, shard)
    data_bytes = None
    if header.file_bytes is not None:
        data_bytes = header.file_bytes - LENGTH_BYTES - len(header.raw)
    _check_coverage(tensors, in_order, position, data_bytes, where)
    return tensors


class _BadEntry(Exception):
    """Leaves the fast path; what exactly is wrong is found out once, off it."""


def _check_metadata(metadata: object, where: str) -> None:
    if metadata is None:
        return
    if not isinstance(metadata, dict):
        raise _broken(where, f"has a __metadata__ that is {kind_of(metadata)}", "it is an object")
    for key, value in metadata.items():
        if not isinstance(value, str):
            raise _broken(
                where, f"has {kind_of(value)} in __metadata__ under {key!r}", "only strings fit"
            )


def _check_entry(name: str, entry: Any, where: str) -> None:
    """Raise the Day0Error that names what is wrong with an entry; return when nothing is."""
    for problem, allowed in _entry_problems(name, entry):
        raise _broken(where, problem, allowed)


def _entry_problems(name: str, entry: Any) -> Iterator[tuple[str, str]]:
    tensor = f"tensor {_short(name)}"
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        yield f"has {tensor}", "names are Unicode text without lone surrogates"
    if not isinstance(entry, dict):
        yield f"describes {tensor} by {kind_of(entry)}", "an object is expected"
        return
    for key in ("dtype", "shape", "data_offsets"):
        if key not in entry:
            yield f"states no {key} for {tensor}", "dtype, shape and data_offsets are required"
            return
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        yield f"gives {tensor} the dtype {_short(dtype)}", f"known are {', '.join(DTYPE_BITS)}"
        return
    if not isinstance(shape, list):
        yield f"gives {tensor} a shape that is {kind_of(shape)}", "an array is expected"
        return
    for dim in shape:
        if type(dim) is not int or not 0 <= dim <= MAX_COUNT:
            yield (
                f"gives {tensor} a shape with the dim {_short(dim)}",
                f"dims are whole numbers from 0 to {MAX_COUNT}",
            )
            return
    total = 1
    for dim in shape:
        total *= dim
        if total > MAX_COUNT:
            yield f"gives {tensor} more than {MAX_COUNT} elements", "no file holds as many"
            return
    yield from _offset_problems(tensor, dtype, shape, total, offsets)


def _offset_problems(
    tensor: str, dtype: str, shape: list[int], total: int, offsets: Any
) -> Iterator[tuple[str, str]]:
    sound = isinstance(offsets, list) and len(offsets) == 2
    if not sound or any(type(value) is not int for value in offsets):
        yield f"gives {tensor} the data_offsets {_short(offsets)}", "two whole numbers are expected"
        return
    start, stop = offsets
    if not 0 <= start <= stop <= MAX_COUNT:
        yield f"gives {tensor} the data_offsets {_short(offsets)}", "0 <= start <= stop is expected"
        return
    bits = total * DTYPE_BITS[dtype]
    if bits % 8:
        yield (
            f"gives {tensor} {total:,} elements of {dtype}, which is {bits:,} bits",
            "only whole bytes can be stored",
        )
    elif stop - start != bits // 8:
        yield (
            f"gives {tensor} {stop - start:,} bytes",
            f"{dtype} of shape {_short(shape)} takes {bits // 8:,}",
        )


def _check_coverage(
    tensors: dict[str, TensorHeader],
    in_order: bool,
    position: int,
    data_bytes: int | None,
    where: str,
) -> None:
    """Every data byte belongs to exactly one tensor, to the end of the file."""
    if not in_order:
        position = 0
        previous = "the start of the data"
        places = sorted((entry.start, entry.stop, name) for name, entry in tensors.items())
        for start, stop, name in places:
            if start < position:
                raise _broken(
                    where,
                    f"places tensor {_short(name)} at byte {start:,}, inside {previous}",
                    f"the next free byte is {position:,}",
                )
            if start > position:
                raise _broken(
                    where,
                    f"leaves a hole of {start - position:,} bytes before tensor {_short(name)}",
                    f"byte {position:,} must follow {previous}",
                )
            position, previous = stop, f"tensor {_short(name)}"
    if data_bytes is None or position == data_bytes:
        return
    if position > data_bytes:
        name = max(tensors, key=lambda name: tensors[name].stop)
        raise _broken(
            where,
            f"is cut off: it holds {data_bytes:,} data bytes",
            f"tensor {_short(name)} ends at byte {position:,}",
        )
    raise _broken(
        where,
        f"has {data_bytes - position:,} bytes after its last tensor: {data_bytes:,} data bytes",
        f"the header accounts for {position:,}",
    )


def _short(value: object) -> str:
    """A value for a message, never longer than a line."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        # Turning a number of thousands of digits into text is refused by Python itself.
        return f"of about 2^{value.bit_length() - 1}" if value > 0 else "below -10^30"
    if isinstance(value, dict) or (isinstance(value, list) and len(value) > 8):
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)}"
    if isinstance(value, list):
        # One level only: an array may be nested deeper than Python may recurse.
        parts = (kind_of(part) if isinstance(part, list | dict) else _short(part) for part in value)
        return f"[{', '.join(parts)}]"
    text = ascii(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _broken(where: str, problem: str, allowed: str) -> Day0Error:
    return Day0Error(
        f"{where} {problem}; {allowed}",
        hint=f"fetch {where} again and compare its size with the original's",
    )
