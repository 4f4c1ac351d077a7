"""How large the caches of a run are, before any weight is read."""

from collections.abc import Sequence
from dataclasses import replace

from day0.errors import DoesNotFit
from day0.runtime.memory import Needs, even, needs, room_on
from day0.runtime.opening import Opened
from day0.runtime.prompts import Job
from day0.runtime.session import Sizes

MAX_BATCH = 8
MAX_CONTEXT = 4096


def needs_of(opened: Opened) -> Needs:
    """What a model that is about to be loaded will take."""
    return needs(opened.lowered["prefill"], opened.recipe, opened.device)


def sizes_of(
    opened: Opened,
    *,
    max_context: int | None = None,
    max_batch: int | None = None,
    max_memory: str | None = None,
) -> Sizes:
    """Caches for any load of `max_batch` sequences of `max_context` tokens each. DoesNotFit where
    the memory is too small, with what would fit."""
    stated = opened.model.spec.context_length or MAX_CONTEXT
    sizes = even(max_context or min(MAX_CONTEXT, stated), max_batch or MAX_BATCH)
    needs_of(opened).must_fit(sizes, room_on(opened.device, max_memory))
    return _agreed(opened, sizes)


def sizes_for(
    opened: Opened,
    jobs: Sequence[Job],
    *,
    max_context: int | None = None,
    max_batch: int | None = None,
    max_memory: str | None = None,
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

    def of(batch: int) -> Sizes:
        return Sizes(tokens=sum(lengths[:batch]), sequences=batch, longest=lengths[0])

    batch = len(lengths)
    if max_batch is None and room is not None:
        while batch > 1 and needed.total(of(batch)) > room:
            batch -= 1
    needed.must_fit(of(batch), room)
    return _agreed(opened, of(batch))


def _agreed(opened: Opened, sizes: Sizes) -> Sizes:
    """What every rank has room for: their engines must make the same steps."""
    if opened.ranks is None:
        return sizes
    agreed = opened.ranks.smallest((sizes.tokens, sizes.sequences, sizes.longest))
    return replace(sizes, **dict(zip(("tokens", "sequences", "longest"), agreed, strict=True)))
