"""The weight files of a checkpoint, read by tensor, and of a tensor no more than what is asked for.

Of a tensor that a weight takes picks of, the smallest block that holds them is read: a rank of a
mesh reads its own share. What has scales in blocks is read in whole blocks; formats that pack
several values into a word are read whole.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from day0.checkpoint.headers import Headers
from day0.errors import Day0Error
from day0.ir import format as formats
from day0.ir.weight import Leaf, Pick
from day0.runtime.dequant import dequantise

Block = tuple[tuple[int, int], ...]  # first and end of every dim


class Files:
    """Tensors of a folder's safetensors files by name, memory-mapped; `used`: what was read;
    `num_bytes`: how much of it."""

    def __init__(self, folder: Path, headers: Headers) -> None:
        self._folder = folder
        self._headers = headers
        self._open: dict[str, Any] = {}
        self.used: set[str] = set()
        self.num_bytes = 0

    def read(self, name: str, block: Block | None = None) -> torch.Tensor:
        """The stored tensor, or a block of it. Day0Error when its file is gone or damaged."""
        header = self._headers.tensors.get(name)
        if header is None:
            raise Day0Error(
                f"the checkpoint has no tensor {name}, which the Graph needs",
                hint="day0 analyze MODEL shows what is missing",
            )
        try:
            if header.shard not in self._open:
                path = self._folder / header.shard
                self._open[header.shard] = safe_open(path, framework="pt")
            file = self._open[header.shard]
            if block is None:
                tensor = file.get_tensor(name)
            else:
                tensor = file.get_slice(name)[tuple(slice(*span) for span in block)]
        except (OSError, SafetensorError) as error:
            raise Day0Error(
                f"{header.shard} cannot be read at {name}: {error}",
                hint="fetch the file again; nothing was changed",
            ) from error
        self.used.add(name)
        self.num_bytes += tensor.nbytes
        return tensor

    def dims(self, name: str) -> tuple[int, ...]:
        """A tensor's stored dims; () where there is none of this name."""
        header = self._headers.tensors.get(name)
        return () if header is None else tuple(header.shape)

    def close(self) -> None:
        self._open.clear()


def own_part(expr: Pick, files: Files, named: Callable[[str], str]) -> torch.Tensor | None:
    """The values of picks of a tensor, read without the rest of it; None where its format or its
    stored dims do not let it be cut. `named` fills a number into a tensor's name."""
    leaf, picks = _chain(expr)
    parts: Mapping[str, str] = dict(leaf.parts) or {"data": leaf.name}
    steps = _steps(leaf, parts)
    if steps is None or files.dims(named(parts["data"])) != leaf.dims:
        return None
    wanted = _indices(leaf, picks)
    block = tuple(
        (int(rows[0]) // step * step, min(-(-(int(rows[-1]) + 1) // step) * step, size))
        for rows, step, size in zip(wanted, steps, leaf.dims, strict=True)
    )
    of_scale = tuple(
        (low // step, -(-high // step)) for (low, high), step in zip(block, steps, strict=True)
    )
    whole = tuple(-(-size // step) for size, step in zip(leaf.dims, steps, strict=True))
    if "scale" in parts and files.dims(named(parts["scale"])) != whole:
        return None
    blocks = {"data": block, "scale": of_scale}
    found = {part: files.read(named(name), blocks[part]) for part, name in parts.items()}
    value = dequantise(leaf.format, found, tuple(high - low for low, high in block))
    for dim, (rows, (low, _)) in enumerate(zip(wanted, block, strict=True)):
        if len(rows) != value.shape[dim]:
            value = value.index_select(dim, rows - low)
    return value


def _chain(expr: Pick) -> tuple[Leaf, list[Pick]]:
    """The leaf below, and the picks on it, innermost first."""
    picks = [expr]
    while isinstance(below := picks[0].of, Pick):
        picks.insert(0, below)
    return below, picks


def _steps(leaf: Leaf, parts: Mapping[str, str]) -> list[int] | None:
    """The multiples of every dim at which the stored tensors may be cut; None where they may
    not."""
    if set(parts) == {"data"} and leaf.format in formats.PLAIN:
        return [1] * len(leaf.dims)
    if set(parts) == {"data", "scale"} and leaf.format.startswith("fp8_b") and len(leaf.dims) > 1:
        form = formats.get(leaf.format)
        return [form.borders(dim, len(leaf.dims)) for dim in range(len(leaf.dims))]
    return None


def _indices(leaf: Leaf, picks: list[Pick]) -> list[torch.Tensor]:
    """By dim the rising indices that are left of each."""
    wanted = [torch.arange(size) for size in leaf.dims]
    for one in picks:
        place = torch.arange(len(wanted[one.dim])) % one.period
        wanted[one.dim] = wanted[one.dim][(place >= one.start) & (place < one.stop)]
    return wanted
