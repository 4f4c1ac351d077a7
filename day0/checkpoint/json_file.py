"""JSON from outside: bytes to an object, or a Day0Error that says what is wrong and where."""

import json
from collections.abc import Callable
from typing import Any, NoReturn

from day0.errors import Day0Error

LFS_POINTER = b"version https://git-lfs"


class DuplicateKey(ValueError):
    """An object states the same key twice."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build the dict of a JSON object; DuplicateKey when a key stands twice."""
    table = dict(pairs)
    if len(table) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKey(key)
            seen.add(key)
    return table


def reject_constant(word: str) -> NoReturn:
    """For files whose format knows no Infinity and no NaN."""
    raise ValueError(f"{word} is not JSON")


def lfs_size(raw: bytes) -> int | None:
    """Size of the real file when `raw` is a git-lfs pointer (0 when it states none), else None.

    A pointer is a short text: version, oid and size on one line each (git-lfs, docs/spec.md).
    """
    if not raw.startswith(LFS_POINTER):
        return None
    for line in raw[:1024].splitlines():
        key, _, value = line.partition(b" ")
        if key == b"size" and value.isdigit() and len(value) < 20:
            return int(value)
    return 0


def pointer_error(where: str, size: int) -> Day0Error:
    """The error for a file that is a git-lfs pointer."""
    real = f", real size {size:,} bytes" if size else ""
    return Day0Error(
        f"{where} is a git-lfs pointer{real} - not downloaded; the file itself is needed",
        hint="run `git lfs pull` in that folder, or give the hub id instead of the folder",
    )


def parse_object(
    raw: bytes,
    where: str,
    *,
    pairs_hook: Callable[[list[tuple[str, Any]]], Any] = unique_keys,
    constant: Callable[[str], Any] = reject_constant,
) -> dict[str, Any]:
    """Parse the JSON object in `raw`; `where` names the file in messages.

    Raises Day0Error for an empty file, a git-lfs pointer, a byte order mark, bytes that are not
    UTF-8, text that is not JSON, JSON that is no object, a key stated twice.
    """
    hint = f"fetch {where} again and look at it with `python -m json.tool`"
    if not raw.strip():
        raise Day0Error(f"{where} is empty; a JSON object is expected", hint=hint)
    size = lfs_size(raw)
    if size is not None:
        raise pointer_error(where, size)
    if raw.startswith(b"\xef\xbb\xbf"):
        raise Day0Error(
            f"{where} starts with a UTF-8 byte order mark; plain UTF-8 is expected",
            hint="save the file again as UTF-8 without a byte order mark",
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Day0Error(
            f"{where} is not UTF-8 (byte {raw[error.start]:#04x} at {error.start}); "
            "a JSON object in UTF-8 is expected",
            hint=hint,
        ) from error
    try:
        value = json.loads(text, object_pairs_hook=pairs_hook, parse_constant=constant)
    except DuplicateKey as error:
        raise Day0Error(
            f"{where} states {error.key!r} twice; names must be unique", hint=hint
        ) from error
    except RecursionError as error:
        raise Day0Error(
            f"{where} is nested too deeply to be read; a JSON object is expected", hint=hint
        ) from error
    except ValueError as error:
        raise Day0Error(
            f"{where} is not JSON ({error}); a JSON object is expected", hint=hint
        ) from error
    if not isinstance(value, dict):
        raise Day0Error(f"{where} holds {kind_of(value)}; an object is expected", hint=hint)
    return value


def kind_of(value: object) -> str:
    """JSON's word for the type of a parsed value, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return {str: "a string", list: "an array", dict: "an object"}.get(
        type(value), type(value).__name__
    )
