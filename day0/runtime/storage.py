"""Tensors of all caches, and the contiguous view of pages that references read.

A paged part is [pages + 1, entries of a page, *dims]; a slotted part [places, entries, *dims]
("per-sequence": [places, *dims]) with places = (slots + 1) * versions: what a sequence keeps stands
once for every token that a verify step may check, and its present state in one of them. A part
that is held as FP8 codes has its scales in pages of their own beside it, under the same table.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from day0.ir.cache import CacheSpec
from day0.ir.tensor import TensorSpec
from day0.runtime.codes import Coding
from day0.runtime.emulate import Rounding
from day0.runtime.pools import paged, span_of
from day0.runtime.step import Step
from day0_kernels import cache_write
from day0_kernels.quant.reference import FP8


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Rows of all sequences' histories in a cache: `index` [S] flat entry numbers in the pages,
    `cu_history` [N+1] borders, `history_first` [N] position (or pool) of each first row."""

    index: torch.Tensor
    cu_history: torch.Tensor
    history_first: torch.Tensor


class Storage:
    """Buffers of a model's caches by cache and part name."""

    def __init__(
        self,
        caches: Mapping[str, CacheSpec],
        *,
        page_size: int,
        num_pages: Mapping[int, int],
        num_slots: int,
        versions: int = 1,
        dtypes: Mapping[str, torch.dtype],
        device: torch.device,
        roundings: Mapping[str, Mapping[str, Rounding]] | None = None,
        codings: Mapping[str, Mapping[str, Coding]] | None = None,
    ) -> None:
        """`dtypes` by cache. `roundings` by cache and part: those parts run in a narrow format and
        are emulated, rounded when they are written and held in fp32. `codings`: those are held as
        codes, with `scales`."""
        self.caches = caches
        self.roundings = roundings or {}
        self.codings = codings or {}
        self.page_size, self.versions = page_size, versions
        self.parts: dict[str, dict[str, torch.Tensor]] = {}
        self.scales: dict[str, dict[str, torch.Tensor]] = {}
        for name, cache in caches.items():
            if paged(cache):
                lead = (num_pages[span_of(cache)] + 1, page_size // cache.every)
            elif cache.growth == "window":
                lead = ((num_slots + 1) * versions, cache.span)
            else:
                lead = ((num_slots + 1) * versions,)
            own = self.codings.get(name, {})
            self.parts[name] = {
                part: torch.zeros(
                    *lead,
                    *_dims(spec),
                    dtype=self._dtype(name, part, dtypes.get(spec.format, dtypes[name])),
                    device=device,
                )
                for part, spec in cache.parts
            }
            self.scales[name] = {
                part: torch.zeros(
                    *lead,
                    *own[part].scale_dims(_dims(spec)),
                    dtype=own[part].scale_dtype,
                    device=device,
                )
                for part, spec in cache.parts
                if part in own
            }

    def _dtype(self, cache: str, part: str, plain: torch.dtype) -> torch.dtype:
        if part in self.codings.get(cache, ()):
            return FP8
        return torch.float32 if part in self.roundings.get(cache, ()) else plain

    def history(
        self, cache: CacheSpec, step: Step, memo: dict[tuple[int, int], History]
    ) -> History:
        """Where the entries readable after this step lie; `memo` holds those of the same step."""
        key = span_of(cache), cache.every
        if key not in memo:
            memo[key] = self._history(*key, step)
        return memo[key]

    def gather(
        self,
        cache: CacheSpec,
        part: str,
        history: History,
        dtype: torch.dtype | None = None,
    ) -> torch.Tensor:
        """[S, *dims] contiguous copy; codes are dequantised, to fp32 or `dtype`."""
        found = _read(self.parts[cache.name][part], history.index)
        coding = self.codings.get(cache.name, {}).get(part)
        if coding is None:
            return found
        values = coding.decode(found, self.scales[cache.name][part].flatten(0, 1)[history.index])
        return values if dtype is None else values.to(dtype)

    def scatter(self, cache: CacheSpec, part: str, history: History, value: torch.Tensor) -> None:
        """Write a contiguous view back; what is new in it is rounded or quantised."""
        before = self.gather(cache, part, history, value.dtype)
        new = (value != before).flatten(1).any(-1) if value.numel() else before.new_zeros(0).bool()
        self._put(cache, part, history.index[new], value[new])

    def write_entries(self, cache: CacheSpec, step: Step, values: list[torch.Tensor]) -> None:
        """Each row's parts at its position; two plain ones (keys and values) by one launch."""
        parts = self.parts[cache.name]
        pages = [parts[part] for part, _ in cache.parts]
        as_they_are = all(
            to.is_cuda and to.dtype == value.dtype for to, value in zip(pages, values, strict=True)
        )
        if len(pages) == 2 and as_they_are and not self.roundings.get(cache.name):
            cache_write.cache_write(
                values[0].flatten(1), pages[0].flatten(2), x_1=values[1].flatten(1),
                pages_1=pages[1].flatten(2), table=step.tables[span_of(cache)],
                positions=step.positions, seq=step.seq,
            )  # fmt: skip
            return
        for (part, _), value in zip(cache.parts, values, strict=True):
            self.write_rows(cache, part, step, value)

    def write_rows(self, cache: CacheSpec, part: str, step: Step, value: torch.Tensor) -> None:
        """Each row's entry at its position; rows that fall out of a window are not kept."""
        size, table = self.page_size, step.tables[span_of(cache)]
        target = self.parts[cache.name][part]
        if target.is_cuda and part not in self.roundings.get(cache.name, ()):
            # one launch that asks the host nothing, so that a step can be captured
            place = {"table": table, "positions": step.positions, "seq": step.seq}
            rows, pages = value.flatten(1), target.flatten(2)
            if part not in self.codings.get(cache.name, ()):
                cache_write.cache_write(rows, pages, **place)
                return
            scales = self.scales[cache.name][part].flatten(2)
            cache_write.cache_write_quantised(rows, pages, scales, **place, width=target.shape[-1])
            return
        pages = table[step.seq, step.positions // size]
        index = pages * size + step.positions % size
        keep = pages > 0
        self._put(cache, part, index[keep], value.view(-1, *target.shape[2:])[keep])

    def _put(self, cache: CacheSpec, part: str, index: torch.Tensor, value: torch.Tensor) -> None:
        """Entries at these flat numbers."""
        flat = self.parts[cache.name][part].flatten(0, 1)
        rounding = self.roundings.get(cache.name, {}).get(part)
        coding = self.codings.get(cache.name, {}).get(part)
        if coding is not None:
            value, scale = coding.stored(value)
            self.scales[cache.name][part].flatten(0, 1)[index] = scale
            flat.view(torch.uint8)[index] = value.view(torch.uint8)
        else:
            flat[index] = (value if rounding is None else rounding(value)).to(flat.dtype)

    def _history(self, span: int, every: int, step: Step) -> History:
        size, table = self.page_size // every, step.tables[span]
        # pools.first_kept, for all sequences at once
        kept = (step.start - span + 1).clamp(min=0) if span else torch.zeros_like(step.start)
        first = kept // every
        count = (step.start + step.length) // every - first
        borders = torch.nn.functional.pad(count.cumsum(0), (1, 0))
        number = torch.repeat_interleave(torch.arange(len(count), device=table.device), count)
        entries = torch.arange(len(number), device=table.device) - (borders[:-1] - first)[number]
        return History(
            index=table[number, entries // size] * size + entries % size,
            cu_history=borders,
            history_first=first,
        )


def _dims(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(dim for dim in spec.dims if isinstance(dim, int))


def _read(buffer: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Entries at flat numbers; codes as bytes, for which torch has every way of indexing."""
    flat = buffer.flatten(0, 1)
    return flat.view(torch.uint8)[index].view(FP8) if flat.dtype == FP8 else flat[index]
