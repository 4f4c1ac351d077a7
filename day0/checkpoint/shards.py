"""All headers of a checkpoint: shards against their index, and one Headers out of them."""

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Protocol

from day0.checkpoint.headers import Headers, TensorHeader
from day0.checkpoint.json_file import kind_of, parse_object
from day0.checkpoint.safetensors_header import Interner, RawHeader, parse_header
from day0.checkpoint.selection import Selection, left_out
from day0.errors import Day0Error
from day0.ir.fact import Finding

# done shards, all shards, the shard just read
Progress = Callable[[int, int, str], None]


class Files(Protocol):
    """The files of a checkpoint, in a folder or on a hub.

    `advice`: the hint for a user whose checkpoint lacks shards.
    """

    advice: str

    def names(self) -> Collection[str]:
        """Paths of the files relative to the checkpoint, "/" between folders."""
        ...

    def where(self, name: str) -> str:
        """The name of a file as a user knows it."""
        ...

    def small(self, name: str) -> bytes:
        """A small file whole; Day0Error when it cannot be had."""
        ...

    def headers(self, names: Iterable[str]) -> Iterator[tuple[str, RawHeader]]:
        """The headers of shards, in any order; Day0Error when one cannot be had."""
        ...


def read_headers(
    files: Files, selection: Selection, progress: Progress | None = None
) -> tuple[Headers | None, tuple[Finding, ...]]:
    """Read the headers of the chosen copy; None when nothing was chosen.

    Raises Day0Error when a shard is absent or corrupt, a tensor stands in two shards, or the
    index and the shards disagree.
    """
    with _collection_paused():
        return _read(files, selection, progress)


def _read(
    files: Files, selection: Selection, progress: Progress | None
) -> tuple[Headers | None, tuple[Finding, ...]]:
    weight_map: dict[str, str] | None = None
    total_size = None
    index = selection.index
    if index:
        weight_map, total_size = parse_index(files.small(index), files.where(index))
    shards = tuple(sorted(set(weight_map.values()))) if weight_map is not None else selection.shards
    if not shards:
        return None, selection.findings
    names = files.names()
    absent = [shard for shard in shards if shard not in names]
    present = [shard for shard in shards if shard in names]
    tensors = _merge(files, present, len(shards), progress)
    if absent:
        raise _incomplete(files, index, len(shards), absent, tensors)
    if len(shards) < selection.expected:
        raise _incomplete(files, "", selection.expected, [], tensors, found=len(shards))
    if weight_map is not None:
        _compare(weight_map, tensors, files.where(index))
    headers = Headers(tensors=tensors, shards=shards)
    findings = [*selection.findings, *left_out(names, shards)]
    if total_size is not None and total_size != headers.data_bytes:
        findings.append(
            Finding(
                code="index-total",
                severity="info",
                message=f"{index} states a total_size of {total_size:,} bytes, "
                f"the headers hold {headers.data_bytes:,}",
                evidence=(index,),
            )
        )
    return headers, tuple(findings)


def parse_index(raw: bytes, where: str) -> tuple[dict[str, str], int | None]:
    """Parse an index: tensor name -> shard, and metadata.total_size where it is a whole number.

    Raises Day0Error when it is no JSON, states a tensor twice, has no weight_map, or names a
    shard that is no plain path inside the checkpoint.
    """
    index = parse_object(raw, where)
    hint = f"fetch {where} again"
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise Day0Error(
            f"{where} has a weight_map that is {_described(weight_map)}; "
            "an object from tensor names to shards is expected",
            hint=hint,
        )
    # Sets of both types and values: half a million tensors, a hundred shards.
    if set(map(type, weight_map.values())) != {str}:
        name = next(name for name, shard in weight_map.items() if type(shard) is not str)
        raise Day0Error(
            f"{where} maps {name!r} to {kind_of(weight_map[name])}; a file name is expected",
            hint=hint,
        )
    for shard in set(weight_map.values()):
        path = PurePosixPath(shard)
        plain = shard.isprintable() and "\\" not in shard
        inside = not path.is_absolute() and ".." not in path.parts
        if not plain or not inside or not shard.endswith(".safetensors"):
            raise Day0Error(
                f"{where} names the shard {shard!r}; "
                "a .safetensors file inside the checkpoint is expected",
                hint=hint,
            )
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    return weight_map, total if type(total) is int else None


def _merge(
    files: Files, shards: Iterable[str], total: int, progress: Progress | None
) -> dict[str, TensorHeader]:
    interner = Interner()
    tables: dict[str, dict[str, TensorHeader]] = {}
    for shard, header in files.headers(shards):
        where = files.where(shard)
        tables[shard] = parse_header(header, where=where, shard=shard, interner=interner)
        if progress:
            progress(len(tables), total, shard)
    tensors: dict[str, TensorHeader] = {}
    # In the order of the shards, however they arrived: the same checkpoint, the same result.
    for shard in shards:
        table = tables.pop(shard)
        both = tensors.keys() & table.keys()
        if both:
            name = min(both)
            raise Day0Error(
                f"tensor {name!r} stands in {tensors[name].shard} and in {files.where(shard)}; "
                f"one shard is allowed ({len(both)} such tensors)",
                hint="remove the shard that is left from an earlier save",
            )
        tensors |= table
    return tensors


def _compare(
    weight_map: Mapping[str, str], tensors: Mapping[str, TensorHeader], where: str
) -> None:
    """Every tensor stands where the index says, and the index says all."""
    for name, shard in weight_map.items():
        header = tensors.get(name)
        if header is None or header.shard != shard:
            place = f"stands in {header.shard}" if header else "is in none of the shards"
            raise Day0Error(
                f"{where} places tensor {name!r} in {shard}, but it {place}; both must agree",
                hint=f"fetch {shard} and the index again, from the same revision",
            )
    if len(tensors) != len(weight_map):
        extra = sorted(tensors.keys() - weight_map.keys())
        raise Day0Error(
            f"{tensors[extra[0]].shard} holds tensor {extra[0]!r}, which {where} does not name "
            f"({len(extra)} such tensors); the index must name all",
            hint="fetch the index again, from the revision of the shards",
        )


def _incomplete(
    files: Files,
    index: str,
    total: int,
    absent: list[str],
    tensors: Mapping[str, TensorHeader],
    found: int | None = None,
) -> Day0Error:
    present = total - len(absent) if found is None else found
    headers = Headers(tensors=tensors, shards=())
    elements = sum(header.elements for header in tensors.values())
    reason = "their names promise more, and all must be there"
    if absent:
        reason = f"{files.where(index)} also names {absent[0]}, and all must be there"
    return Day0Error(
        f"{present} of {total} shards present, total unknown "
        f"(>= {elements:,} stored elements, {headers.data_bytes:,} bytes): {reason}",
        hint=files.advice,
    )


def _described(value: object) -> str:
    return "absent or null" if value is None else kind_of(value) if value else "empty"


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector while half a million small objects are made.

    None of them is part of a cycle; looking for cycles among them took more than half of the time
    (2.8 s against 1.2 s for the headers of Kimi-K3).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
