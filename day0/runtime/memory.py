"""What a run needs in memory, and what there is: known before any weight is read.

Bytes of weights and caches are counted as `analyze` counts them; caches in whole pages and slots,
as the engine takes them.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from day0.errors import Day0Error, DoesNotFit
from day0.ir import format as formats
from day0.ir.cache import CacheSpec
from day0.ir.recipe import Recipe
from day0.passes.lifetimes import peak_bytes
from day0.passes.lower import Lowered
from day0.registry.cost import stored_bytes
from day0.runtime.limits import Sizes, limits_of
from day0.runtime.pools import Limits, paged, span_of

# Of a GPU, for what nobody counts: the driver, captured graphs, scratch inside kernels.
OVERHEAD = 3 * 2**29
UNITS = {"": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
         "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}  # fmt: skip
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Z]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """One model lowered for one device. Bytes: `weights` in all, shared ones once; `row` the most
    between operators per row of a step. `beside`: what drafts `drafts` tokens a step for it."""

    lowered: Lowered
    recipe: Recipe
    device: str
    weights: int
    row: int
    drafts: int = 0
    beside: tuple["Needs", ...] = ()

    def caches(self, sizes: Sizes) -> int:
        """Bytes of all pages and slots, with those that are padding: a slot has a version for each
        token that a verify step checks."""
        limits = self._limits(sizes)
        held = sum(one.held(limits) for one in (self, *self.beside))
        return held + sizes.states * self.state

    def held(self, limits: Limits) -> int:
        """Bytes of its own caches under these limits."""
        total = working = 0
        for cache in self.lowered.caches.values():
            entry = self._entry(cache)
            if paged(cache):
                pages = limits.num_pages[span_of(cache)] + 1
                total += pages * (limits.page_size // cache.every) * entry
            else:
                slot = max(cache.span, 1) * entry
                total += (limits.num_slots + 1) * limits.versions * slot
                working = max(working, limits.num_slots * slot)
        # replay works on a copy of the slots of one operator after the other
        return total + (working if limits.replay else 0)

    @property
    def page_size(self) -> int:
        """Tokens of a page."""
        return self._limits(Sizes()).page_size

    @property
    def state(self) -> int:
        """Bytes of one copy of a slot."""
        return sum(
            max(cache.span, 1) * one._entry(cache)
            for one in (self, *self.beside)
            for cache in one.lowered.caches.values()
            if not paged(cache)
        )

    def _entry(self, cache: CacheSpec) -> int:
        coded = cache.name in self.lowered.held.caches
        return sum(
            held_bytes(self.recipe.part(cache, part), spec.dims, coded=coded)
            for part, spec in cache.parts
        )

    def values(self, sizes: Sizes) -> int:
        """Bytes between operators in the largest prefill step."""
        return self.row * min(self._limits(sizes).chunk, sizes.tokens)

    def total(self, sizes: Sizes) -> int:
        """Everything, on a GPU with what it takes for itself."""
        own = 0 if self.device == "cpu" else OVERHEAD
        weights = self.weights + sum(one.weights for one in self.beside)
        return weights + self.caches(sizes) + self.values(sizes) + own

    def largest_context(self, batch: int, room: int, limit: int) -> int:
        """Tokens each of `batch` sequences may have, up to `limit`; 0 where not even one fits."""
        return _largest(limit, lambda tokens: self.total(even(tokens, batch)) <= room)

    def largest_batch(self, context: int, room: int, limit: int) -> int:
        """Sequences of `context` tokens at once, up to `limit`; 0 where not even one fits."""
        return _largest(limit, lambda batch: self.total(even(context, batch)) <= room)

    def must_fit(self, sizes: Sizes, room: int | None) -> None:
        """DoesNotFit (exit 3) with what would fit; nothing where nobody knows the `room`."""
        if room is None or self.total(sizes) <= room:
            return
        batch, context = sizes.sequences, sizes.longest or sizes.tokens
        said = (
            f"{batch} sequence{'s' if batch > 1 else ''} of up to {context:,} tokens need "
            f"{shown(self.total(sizes))} ({shown(self.weights)} of weights, "
            f"{shown(self.caches(sizes))} of caches); {shown(room)} are there"
        )
        shorter = self.largest_context(batch, room, context)
        fewer = self.largest_batch(context, room, batch)
        hints = [f"--max-context {shorter}"] if shorter else []
        hints += [f"--max-batch {fewer}"] if fewer and fewer < batch else []
        if not hints and batch > 1 and (alone := self.largest_context(1, room, context)):
            hints = [f"--max-batch 1 --max-context {alone}"]
        fits = "what would fit: " + " or ".join(hints)
        raise DoesNotFit(said, hint=fits if hints else "--quant fp8, or fewer --layers")

    def _limits(self, sizes: Sizes) -> Limits:
        caches = [c for one in (self, *self.beside) for c in one.lowered.caches.values()]
        return limits_of(caches, replace(sizes, drafts=self.drafts), self.device)


def needs(lowered: Lowered, recipe: Recipe, device: str, *, known: Lowered | None = None) -> Needs:
    """What a model takes; `lowered` for prefill, whose steps are the largest. Weights of `known`
    are there already."""
    there = {name for op in (known.graph.ops if known else ()) for _, name in op.weights}
    return Needs(
        lowered=lowered,
        recipe=recipe,
        device=device,
        weights=sum(weights_by_layer((lowered,), recipe, but=there).values()),
        row=peak_bytes(lowered.graph),
    )


def weights_by_layer(
    lowered: Iterable[Lowered], recipe: Recipe, *, but: Collection[str] = ()
) -> dict[int, int]:
    """Bytes of the weights as they are held, by layer (-1: outside), each where it is used first:
    codes with their scales where the lowering holds them so, else wide where narrow ones are
    emulated. `but`: names that do not count."""
    seen, found = set[str](but), dict[int, int]()
    for low in lowered:
        for op in low.graph.ops:
            for _, name in op.weights:
                if name in seen:
                    continue
                seen.add(name)
                weight = low.weights[name]
                coded = name in low.held.weights
                size = held_bytes(recipe.weight(weight), weight.spec.dims, coded=coded)
                found[op.layer] = found.get(op.layer, 0) + size
    return found


def held_bytes(format_name: str, dims: tuple[int | str, ...], *, coded: bool) -> int:
    """Bytes of a tensor as it lies in memory: a narrow format that is not `coded` is emulated, as
    fp32 values."""
    wide = formats.get(format_name).quantised and not coded
    return stored_bytes("fp32" if wide else format_name, dims)


def even(context: int, batch: int) -> Sizes:
    """`batch` sequences of `context` tokens each."""
    return Sizes(tokens=context * batch, sequences=batch, longest=context)


def room_on(device: str, stated: str | None = None) -> int | None:
    """Bytes to fill: what is free now, or `stated` ("80GiB") where that is less. None where the
    system does not tell."""
    free = None
    if device != "cpu":
        free = torch.cuda.mem_get_info(device)[0]
    elif Path("/proc/meminfo").exists():
        lines = dict(
            line.split(":", 1) for line in Path("/proc/meminfo").read_text("ascii").splitlines()
        )
        free = int(lines["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in lines else None
    if stated is None:
        return free
    return parsed(stated) if free is None else min(parsed(stated), free)


def parsed(text: str, option: str = "--max-memory") -> int:
    """Bytes of "80GiB", "512 MB" or "1000000"."""
    match = SIZE.fullmatch(text.strip().upper())
    if match is None or match[2] not in UNITS or not float(match[1]):
        raise Day0Error(
            f"{option} is {text!r}; it must be a number of bytes, or one with KiB, MiB, GiB, "
            "TiB, KB, MB, GB or TB",
            hint=f"day0 run MODEL {option} 80GiB",
        )
    return int(float(match[1]) * UNITS[match[2]])


def shown(count: int) -> str:
    """Bytes for a sentence."""
    unit = next((unit for unit in ("TiB", "GiB", "MiB") if count >= UNITS[unit.upper()]), "KiB")
    return f"{count / UNITS[unit.upper()]:,.2f} {unit}"


def _largest(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `limit` that fits, where all smaller ones do; else 0."""
    if limit < 1 or not fits(1):
        return 0
    low, high = 1, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
