"""Tensors of all caches, and the contiguous view of pages that references read.

A paged part is [pages + 1, entries of a page, *dims]; a slotted part [slots + 1, entries, *dims]
("per-sequence": [slots + 1, *dims]).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from day0.ir.cache import CacheSpec
from day0.runtime.emulate import Rounding
from day0.runtime.pools import paged, span_of
from day0.runtime.step import Step
from day0_kernels import cache_write


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
        dtypes: Mapping[str, torch.dtype],
        device: torch.device,
        roundings: Mapping[str, Mapping[str, Rounding]] | None = None,
    ) -> None:
        """`dtypes` by cache. `roundings` by cache and part: those parts run in a narrow format and
        are emulated, rounded when they are written and held in fp32."""
        self.caches = caches
        self.roundings = roundings or {}
        self.page_size = page_size
        self.parts: dict[str, dict[str, torch.Tensor]] = {}
        for name, cache in caches.items():
            if paged(cache):
                lead = (num_pages[span_of(cache)] + 1, page_size // cache.every)
            elif cache.growth == "window":
                lead = (num_slots + 1, cache.span)
            else:
                lead = (num_slots + 1,)
            self.parts[name] = {
                part: torch.zeros(
                    *lead,
                    *(dim for dim in spec.dims if isinstance(dim, int)),
                    dtype=(
                        torch.float32
                        if part in self.roundings.get(name, ())
                        else dtypes.get(spec.format, dtypes[name])
                    ),
                    device=device,
                )
                for part, spec in cache.parts
            }

    def history(
        self, cache: CacheSpec, step: Step, memo: dict[tuple[int, int], History]
    ) -> History:
        """Where the entries readable after this step lie; `memo` holds those of the same step."""
        key = span_of(cache), cache.every
        if key not in memo:
            memo[key] = self._history(*key, step)
        return memo[key]

    def gather(self, cache: CacheSpec, part: str, history: History) -> torch.Tensor:
        """[S, *dims] contiguous copy."""
        return self.parts[cache.name][part].flatten(0, 1)[history.index]

    def scatter(self, cache: CacheSpec, part: str, history: History, value: torch.Tensor) -> None:
        """Write a contiguous view back; what is new in it is rounded."""
        flat = self.parts[cache.name][part].flatten(0, 1)
        rounding = self.roundings.get(cache.name, {}).get(part)
        if rounding is not None and value.numel():
            new = (value != flat[history.index]).flatten(1).any(-1)
            value = value.clone()
            value[new] = rounding(value[new])
        flat[history.index] = value

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
        rounding = self.roundings.get(cache.name, {}).get(part)
        if target.is_cuda and rounding is None:
            # one launch that asks the host nothing, so that a step can be captured
            cache_write.cache_write(
                value.flatten(1), target.flatten(2), table=table, positions=step.positions,
                seq=step.seq,
            )  # fmt: skip
            return
        pages = table[step.seq, step.positions // size]
        index = pages * size + step.positions % size
        keep = pages > 0
        flat = target.flatten(0, 1)
        kept = value.view(-1, *flat.shape[1:])[keep]
        flat[index[keep]] = (kept if rounding is None else rounding(kept)).to(flat.dtype)

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
