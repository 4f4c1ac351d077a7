"""How large the caches of a run are, before any weight is read."""

from collections.abc import Sequence

from day0.errors import DoesNotFit
from day0.runtime.prompts import Job
from day0.runtime.session import Sizes

MAX_BATCH = 8


def sizes_for(
    jobs: Sequence[Job],
    *,
    max_context: int | None = None,
    max_batch: int = MAX_BATCH,
    context_length: int | None = None,
) -> Sizes:
    """Caches for the `max_batch` longest jobs at once. DoesNotFit for a job beyond `max_context`
    tokens, or where nobody states one beyond the model's own `context_length`."""
    limit = context_length if max_context is None else max_context
    longest = max(jobs, key=lambda job: job.tokens)
    if limit is not None and longest.tokens > limit:
        what = "the model states" if max_context is None else "--max-context gives the cache"
        raise DoesNotFit(
            f"a prompt of {len(longest.ids):,} tokens and {longest.sampling.max_new_tokens:,} new "
            f"ones make {longest.tokens:,}; {what} {limit:,}",
            hint=f"--max-context {longest.tokens}, or a shorter prompt or --max-new-tokens",
        )
    batch = sorted((job.tokens for job in jobs), reverse=True)[:max_batch]
    return Sizes(tokens=sum(batch), sequences=len(batch), longest=batch[0])
