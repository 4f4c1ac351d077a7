"""Arguments of an entry made up from shapes alone: for operators whose data nobody knows yet."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from day0_kernels.case import Work

NONE: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A paged cache as a definition sees it, contiguous: dims of one entry of each part, one entry
    for every `every` tokens, the last `span` tokens (0: all of them)."""

    parts: Mapping[str, tuple[int, ...]]
    every: int = 1
    span: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Dims by parameter: `rows` and `outputs` of one row, `weights`, `slots` of one sequence's
    state, `pages` by cache slot. `whole` names what holds whole numbers, `wide` what stays fp32;
    `attrs` are handed on."""

    rows: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]
    weights: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    slots: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pages: Mapping[str, Page] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    whole: tuple[str, ...] = ()
    wide: tuple[str, ...] = ()


def made_up(
    function: Callable[..., None],
    layout: Layout,
    *,
    lengths: tuple[int, ...],
    starts: tuple[int, ...],
    dtype: torch.dtype,
    device: str,
    generator: torch.Generator,
) -> dict[str, Any]:
    """What `function` takes of a step in which sequence n brings lengths[n] rows after starts[n]
    tokens. Rows, histories and states are normal, matrices scaled by their last dim, whole numbers
    0, outputs NaN. A history whose part is called as an input of the same dims ends in its rows."""

    def draw(*dims: int, name: str = "", scale: float = 1.0) -> torch.Tensor:
        if name in layout.whole:
            return torch.zeros(dims, dtype=torch.int64, device=device)
        made = torch.randn(dims, generator=generator, device=device, dtype=torch.float32) * scale
        return made.to(torch.float32 if name in layout.wide else dtype)

    total = sum(lengths)
    offers: dict[str, Any] = {**_step(lengths, starts, device), **layout.attrs}
    for name, dims in layout.rows.items():
        offers[name] = draw(total, *dims, name=name)
    for name, dims in layout.weights.items():
        scale = dims[-1] ** -0.5 if len(dims) > 1 else 1.0
        offers[name] = draw(*dims, name=name, scale=scale)
    for name, dims in layout.slots.items():
        offers[name] = draw(len(lengths) + 1, *dims, name=name, scale=0.3)
    for name, dims in layout.outputs.items():
        whole, wide = name in layout.whole, name in layout.wide
        kind = torch.int64 if whole else (torch.float32 if wide else dtype)
        offers[name] = torch.full((total, *dims), 0 if whole else torch.nan, dtype=kind,
                                  device=device)  # fmt: skip
    for slot, page in layout.pages.items():
        found = _history(page, lengths, starts, offers, draw, device)
        offers |= {f"{slot}_{name}": value for name, value in found.items()}
        if len(layout.pages) == 1:
            # The short names too, where no input has them.
            offers = found | offers
    wanted = inspect.signature(function).parameters
    return {name: _offered(name, offers) for name in wanted if _is_offered(name, offers)}


def work_of(layout: Layout, *, lengths: tuple[int, ...], dtype: torch.dtype) -> Work:
    """Weights and rows once; two operations an element of a matrix and row."""
    weights = sum(_size(dims) for dims in layout.weights.values())
    matrices = sum(_size(dims) for dims in layout.weights.values() if len(dims) > 1)
    rows = sum(_size(dims) for dims in (*layout.rows.values(), *layout.outputs.values()))
    total = sum(lengths)
    return Work(bytes=(weights + rows * total) * dtype.itemsize, flops=2 * matrices * total)


def _size(dims: tuple[int, ...]) -> int:
    size = 1
    for dim in dims:
        size *= dim
    return size


def _step(lengths: tuple[int, ...], starts: tuple[int, ...], device: str) -> dict[str, Any]:
    """The fields of a step, as the runtime makes them; slot 0 belongs to nobody."""
    length = torch.tensor(lengths, dtype=torch.int64)
    start = torch.tensor(starts, dtype=torch.int64)
    ends = length.cumsum(0)
    cu_seqlens = torch.cat((torch.zeros(1, dtype=torch.int64), ends))
    seq = torch.repeat_interleave(torch.arange(len(lengths)), length)
    fields = {
        "cu_seqlens": cu_seqlens,
        "positions": torch.arange(sum(lengths)) - cu_seqlens[seq] + start[seq],
        "seq": seq,
        "start": start,
        "length": length,
        "slot": torch.arange(1, len(lengths) + 1),
        "last": ends - 1,
    }
    return {name: value.to(device) for name, value in fields.items()}


def _history(
    page: Page,
    lengths: tuple[int, ...],
    starts: tuple[int, ...],
    offers: dict[str, Any],
    draw: Callable[..., torch.Tensor],
    device: str,
) -> dict[str, torch.Tensor]:
    """Entries of a paged cache after the step, by part, and their borders."""
    result = {}
    kept = [max(0, start - page.span + 1) if page.span else 0 for start in starts]
    first = [at // page.every for at in kept]
    counts = [
        (start + length) // page.every - at
        for start, length, at in zip(starts, lengths, first, strict=True)
    ]
    borders = torch.tensor([0, *counts], dtype=torch.int64).cumsum(0).to(device)
    for part, dims in page.parts.items():
        entries = draw(sum(counts), *dims)
        same = offers.get(part)
        if page.every == 1 and same is not None and tuple(same.shape[1:]) == dims:
            at = torch.cat(
                [
                    torch.arange(int(end) - length, int(end))
                    for end, length in zip(borders[1:].tolist(), lengths, strict=True)
                ]
            )
            entries[at.to(device)] = same.to(entries.dtype)
        result[part] = entries
    return result | {
        "cu_history": borders,
        "history_first": torch.tensor(first, device=device),
    }


def _is_offered(name: str, offers: Mapping[str, Any]) -> bool:
    return name in offers or f"{name}0" in offers


def _offered(name: str, offers: Mapping[str, Any]) -> Any:
    """A value, or the list of those called as `name` with a number."""
    if name in offers:
        return offers[name]
    found, number = [], 0
    while f"{name}{number}" in offers:
        found.append(offers[f"{name}{number}"])
        number += 1
    return found
