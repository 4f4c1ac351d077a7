"""Header listings of the corpus (headers/*.tsv), expanded to Headers or to sparse shards.

A listing holds one line a pattern: `name_pattern({L}=layer,{E}=expert)  layers  experts
n_tensors  dtype  shape  elements_each`, "-" where the pattern has no such index, and a comment
line `# tensors=N elements_in_headers=N data_bytes=N ...` that the expansion is checked against.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from day0.checkpoint.headers import DTYPE_BITS, Headers, TensorHeader

SHARDS = 96


class Row(NamedTuple):
    """A pattern of the listing and what every tensor it stands for looks like."""

    pattern: str
    layers: tuple[int, ...]
    experts: tuple[int, ...]
    count: int
    dtype: str
    shape: tuple[int, ...]
    elements: int

    def names(self) -> Iterator[str]:
        """The tensor names, layer by layer."""
        before_layer, has_layer, after_layer = self.pattern.partition("{L}")
        if not has_layer:
            yield self.pattern
            return
        before_expert, has_expert, after_expert = after_layer.partition("{E}")
        for layer in self.layers:
            head = f"{before_layer}{layer}{before_expert}"
            if not has_expert:
                yield head
                continue
            for expert in self.experts:
                yield f"{head}{expert}{after_expert}"

    @property
    def bytes(self) -> int:
        """Stored bytes of one tensor."""
        return self.elements * DTYPE_BITS[self.dtype] // 8


def rows(path: Path) -> tuple[Row, ...]:
    """Parse a listing; ValueError when a line disagrees with itself or with the totals."""
    totals: dict[str, int] = {}
    parsed: list[Row] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            totals |= {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)
                       if key in ("tensors", "elements_in_headers", "data_bytes")}  # fmt: skip
            continue
        if line.startswith("name_pattern"):
            continue
        pattern, layers, experts, count, dtype, shape, elements = line.split("\t")
        row = Row(
            pattern,
            _numbers(layers),
            _numbers(experts),
            int(count),
            dtype,
            tuple(json.loads(shape)),
            int(elements),
        )
        product = 1
        for dim in row.shape:
            product *= dim
        repeats = max(len(row.layers), 1) * max(len(row.experts), 1)
        if product != row.elements or repeats != row.count:
            raise ValueError(f"{path.name}: the line of {pattern} disagrees with itself")
        parsed.append(row)
    found = {
        "tensors": sum(row.count for row in parsed),
        "elements_in_headers": sum(row.count * row.elements for row in parsed),
        "data_bytes": sum(row.count * row.bytes for row in parsed),
    }
    if found != totals:
        raise ValueError(f"{path.name}: expanded to {found}, the listing says {totals}")
    return tuple(parsed)


def headers(path: Path) -> Headers:
    """Expand a listing in memory: one shard, offsets in the listing's order."""
    shard = "model.safetensors"
    tensors: dict[str, TensorHeader] = {}
    position = 0
    for row in rows(path):
        for name in row.names():
            stop = position + row.bytes
            tensors[name] = TensorHeader(row.dtype, row.shape, position, stop, shard)
            position = stop
    return Headers(tensors=tensors, shards=(shard,))


def write_sparse(
    path: Path, folder: Path, config: Mapping[str, Any] | None = None, *, num_shards: int = 0
) -> Headers:
    """Write the listing as a checkpoint folder whose shards hold a true header and no data.

    The files are sparse (their length is set, nothing is written), so terabytes cost the headers
    only. `num_shards` 0 chooses as many as give about 5,000 tensors each, as Kimi-K3 has; config
    None writes no config.json. Returns the Headers a reader must find.
    """
    table = rows(path)
    total = sum(row.count for row in table)
    num_shards = num_shards or max(1, min(SHARDS, round(total / 5179)))
    width = 6 if num_shards > 1 else 5
    shards = [
        f"model-{number:05d}-of-{num_shards:0{width}d}.safetensors"
        for number in range(1, num_shards + 1)
    ]
    if num_shards == 1:
        shards = ["model.safetensors"]
    folder.mkdir(parents=True, exist_ok=True)
    names = ((row, name) for row in table for name in row.names())
    tensors: dict[str, TensorHeader] = {}
    for number, shard in enumerate(shards):
        start, stop = total * number // num_shards, total * (number + 1) // num_shards
        entries: list[str] = []
        position = 0
        for _ in range(stop - start):
            row, name = next(names)
            end = position + row.bytes
            entries.append(
                f'"{name}":{{"dtype":"{row.dtype}","shape":{list(row.shape)},'
                f'"data_offsets":[{position},{end}]}}'
            )
            tensors[name] = TensorHeader(row.dtype, row.shape, position, end, shard)
            position = end
        text = f'{{"__metadata__":{{"format":"pt"}},{",".join(entries)}}}'.encode()
        text += b" " * (-len(text) % 8)
        with (folder / shard).open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + position)
    result = Headers(tensors=tensors, shards=tuple(shards))
    if num_shards > 1:
        index = {
            "metadata": {"total_size": sum(row.count * row.bytes for row in table)},
            "weight_map": {name: entry.shard for name, entry in tensors.items()},
        }
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config, indent=2))
    return result


def _numbers(text: str) -> tuple[int, ...]:
    """Expand "0-2,5" to (0, 1, 2, 5), and "-" to nothing."""
    if text == "-":
        return ()
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return tuple(numbers)
