"""How large the caches of a run are, before any weight is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from day0.errors import Day0Error, DoesNotFit
from day0.ir.cache import STATE_INTERVAL
from day0.runtime.limits import Sizes
from day0.runtime.memory import Needs, even, needs, parsed, room_on, shown
from day0.runtime.opening import Opened
from day0.runtime.prompts import Job

MAX_BATCH = 8
MAX_CONTEXT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefixes:
    """What may be kept of earlier prompts: `size` as "4GiB", a state every `interval` tokens."""

    size: str
    interval: int | None = None


def prefixes_of(size: str | None, interval: int | None) -> Prefixes | None:
    """From the words of a user; Day0Error for an interval without a size."""
    if size is None and interval is not None:
        raise Day0Error(
            f"--state-interval is {interval} without --prefix-cache; nothing is kept",
            hint=f"day0 run MODEL --prefix-cache 4GiB --state-interval {interval}",
        )
    return None if size is None else Prefixes(size=size, interval=interval)


def needs_of(opened: Opened) -> Needs:
    """What a model that is about to be loaded will take, with what drafts for it."""
    own = needs(opened.lowered["prefill"], opened.recipe, opened.device)
    if opened.drafting is None:
        return own
    drafting = opened.drafting
    return replace(own, drafts=drafting.tokens, beside=drafting.needs(opened))


def sizes_of(
    opened: Opened,
    *,
    max_context: int | None = None,
    max_batch: int | None = None,
    max_memory: str | None = None,
    prefixes: Prefixes | None = None,
) -> Sizes:
    """Caches for any load of `max_batch` sequences of `max_context` tokens each. DoesNotFit where
    the memory is too small, with what would fit."""
    stated = opened.model.spec.context_length or MAX_CONTEXT
    sizes = even(max_context or min(MAX_CONTEXT, stated), max_batch or MAX_BATCH)
    needed, room = needs_of(opened), room_on(opened.device, max_memory)
    sizes = _kept(needed, _keeping(needed, prefixes)(sizes), room)
    needed.must_fit(sizes, room)
    return _agreed(opened, sizes)


def _kept(needed: Needs, sizes: Sizes, room: int | None) -> Sizes:
    """How what lies in slots outlives rejected drafts: a version for each token, which is quick,
    or where these do not fit one state, and updates done again."""
    if room is None or not needed.drafts or needed.total(sizes) <= room:
        return sizes
    once = replace(sizes, replay=True)
    return once if needed.total(once) <= room else sizes


def sizes_for(
    opened: Opened,
    jobs: Sequence[Job],
    *,
    max_context: int | None = None,
    max_batch: int | None = None,
    max_memory: str | None = None,
    prefixes: Prefixes | None = None,
) -> Sizes:
    """Caches for the `max_batch` longest jobs at once; where nobody states a batch, for as many as
    there is memory for. DoesNotFit for a job beyond `max_context` tokens, or where nobody states
    one beyond the model's own context, and where the memory is too small."""
    context_length = opened.model.spec.context_length
    limit = context_length if max_context is None else max_context
    longest = max(jobs, key=lambda job: job.tokens)
    if limit is not None and longest.tokens > limit:
        what = "the model states" if max_context is None else "--max-context gives the cache"
        raise DoesNotFit(
            f"a prompt of {len(longest.ids):,} tokens and {longest.sampling.max_new_tokens:,} new "
            f"ones make {longest.tokens:,}; {what} {limit:,}",
            hint=f"--max-context {longest.tokens}, or a shorter prompt or --max-new-tokens",
        )
    needed, room = needs_of(opened), room_on(opened.device, max_memory)
    lengths = sorted((job.tokens for job in jobs), reverse=True)[: max_batch or MAX_BATCH]

    keeping = _keeping(needed, prefixes)

    def of(batch: int) -> Sizes:
        return keeping(Sizes(tokens=sum(lengths[:batch]), sequences=batch, longest=lengths[0]))

    batch = len(lengths)
    if max_batch is None and room is not None:
        while batch > 1 and needed.total(_kept(needed, of(batch), room)) > room:
            batch -= 1
    sizes = _kept(needed, of(batch), room)
    needed.must_fit(sizes, room)
    return _agreed(opened, sizes)


def _agreed(opened: Opened, sizes: Sizes) -> Sizes:
    """What every rank has room for: their engines must make the same steps."""
    if opened.ranks is None:
        return sizes
    agreed = opened.ranks.smallest((sizes.tokens, sizes.sequences, sizes.longest))
    return replace(sizes, **dict(zip(("tokens", "sequences", "longest"), agreed, strict=True)))


def _keeping(needed: Needs, prefixes: Prefixes | None) -> Callable[[Sizes], Sizes]:
    """Sizes with room for earlier prefixes: as many intervals, each with its pages and a state, as
    the stated bytes hold. Day0Error where they hold not even one."""
    if prefixes is None:
        return lambda sizes: sizes
    interval = STATE_INTERVAL if prefixes.interval is None else prefixes.interval
    if interval < 1:
        raise Day0Error(
            f"--state-interval is {interval}; it must be 1 or more tokens",
            hint="day0 run MODEL --prefix-cache 4GiB --state-interval 2048",
        )
    interval = -(-interval // needed.page_size) * needed.page_size
    budget = parsed(prefixes.size, "--prefix-cache")
    least = Sizes(tokens=1, sequences=1, chunk=1)
    one = replace(least, kept=interval, interval=interval, prefix_bytes=budget)
    each = needed.caches(one) - needed.caches(least)
    if budget < each:
        raise Day0Error(
            f"--prefix-cache is {shown(budget)}; {interval:,} tokens and the state behind them "
            f"take {shown(each)}",
            hint=f"--prefix-cache {-(-each // 2**20)}MiB or more, or a smaller --state-interval",
        )
    kept = budget // each * interval
    return lambda sizes: replace(sizes, kept=kept, interval=interval, prefix_bytes=budget)
