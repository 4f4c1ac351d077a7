"""`day0.load`: a model that generates, and gives logits, hidden rows and scores."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from day0.errors import Day0Error
from day0.runtime.drafting import DRAFT_TOKENS, open_with_drafts
from day0.runtime.limits import Sizes
from day0.runtime.opening import Opened, open_model
from day0.runtime.prepare import Prepared, prepare
from day0.runtime.prompts import Ask, Job, jobs_of
from day0.runtime.prompts import n_best as several
from day0.runtime.sampling import Sampling
from day0.runtime.serving import Output, Piece, Serving
from day0.runtime.session import Session
from day0.runtime.sizing import MAX_BATCH, MAX_CONTEXT, prefixes_of, sizes_of
from day0.runtime.text import no_tokenizer

Prompt = str | Sequence[int]


class Loaded:
    """A model with its weights on one device.

    `opened` says what it is, `session` runs it, `load_s` is how long loading took, `prepared` what
    `prepare` did.
    """

    def __init__(self, opened: Opened, sizes: Sizes) -> None:
        self.opened = opened
        self.session: Session
        self.session, self.load_s = opened.session(sizes)
        self.prepared = Prepared()
        self._cold = True

    def prepare(self) -> Prepared:
        """Compile and capture, before the first request, all that the sizes allow."""
        self.prepared = prepare(self.session)
        return self.prepared

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        max_new_tokens: int = 16,
        min_new_tokens: int = 0,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        stop: str | Sequence[str] = (),
        ignore_eos: bool = False,
        n_best: int = 1,
        on_piece: Piece | None = None,
    ) -> list[Output]:
        """Continue prompts, each a text or its ids; one alone may stand without a list. `n_best`
        continuations of each, drawn with seeds one after another, computing the prompt once.
        `on_piece(number, text)` sees text as it comes. Day0Error for a prompt or an option that
        cannot be, DoesNotFit for one that the caches cannot hold."""
        sampling = Sampling(
            max_new_tokens=max_new_tokens,
            min_new_tokens=min_new_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
        )
        asks = [
            Ask(prompt=prompt) if isinstance(prompt, str) else Ask(ids=tuple(prompt))
            for prompt in _listed(prompts)
        ]
        jobs = several(self.jobs(asks, sampling=sampling, ignore_eos=ignore_eos), n_best)
        return list(self.serving(jobs, on_piece=on_piece).run())

    def logits(self, ids: Prompt) -> torch.Tensor:
        """[T, V] in fp32: logits after each id of a prompt."""
        return self.session.logits(self._ids(ids))

    def hidden(self, ids: Prompt) -> torch.Tensor:
        """[T, H] in fp32: rows after the final norm, which the head reads."""
        return self.session.hidden(self._ids(ids))

    def score(self, ids: Prompt) -> torch.Tensor:
        """[T - 1] natural logarithms: the probability of each id after those before it."""
        return self.session.score(self._ids(ids))

    @property
    def implementations(self) -> tuple[tuple[str, str, tuple[str, ...], int], ...]:
        """(family, what runs it, formats of its matrices and caches, ops of a decode step):
        "reference" are the definitions, which `backend="auto"` takes too for as long as nothing
        faster is there. Formats that are emulated say so."""
        choices = self.session.lowered["decode"].choices.values()
        counts = Counter((choice.family, choice.backend, choice.formats) for choice in choices)
        return tuple((*key, count) for key, count in sorted(counts.items()))

    def jobs(
        self, asks: Sequence[Ask], *, sampling: Sampling, ignore_eos: bool = False
    ) -> tuple[Job, ...]:
        """What is asked for as jobs of this model."""
        return jobs_for(self.opened, asks, sampling=sampling, ignore_eos=ignore_eos)

    def serving(self, jobs: Sequence[Job], *, on_piece: Piece | None = None) -> Serving:
        """Jobs ready to run; the first serving of a loaded model counts as cold."""
        for job in jobs:
            self.session.checked(job.ids)
        cold, self._cold = self._cold, False
        engine = self.session.engine()
        return Serving(engine, jobs, self.opened.text, cold=cold, on_piece=on_piece)

    def _ids(self, prompt: Prompt) -> Sequence[int]:
        if not isinstance(prompt, str):
            return prompt
        if self.opened.text is None:
            raise no_tokenizer(self.opened.name)
        return self.opened.text.encode(prompt)


def load(
    model: str = "demo",
    quant: str = "bf16",
    backend: str = "auto",
    *,
    dummy: bool = False,
    seed: int = 0,
    layers: int | None = None,
    facts: Mapping[str, Any] | None = None,
    plugin: Path | None = None,
    device: str = "auto",
    without: Sequence[str] = (),
    max_context: int = MAX_CONTEXT,
    max_batch: int = MAX_BATCH,
    max_memory: str | None = None,
    cache_dir: Path | None = None,
    speculate: str | None = None,
    draft_tokens: int = DRAFT_TOKENS,
    prefix_cache: str | None = None,
    state_interval: int | None = None,
) -> Loaded:
    """Load MODEL: a hub id, a folder, "catalog:NAME" (with `dummy`) or "demo".

    `max_batch` sequences at once may hold `max_context` tokens each; the other arguments mean what
    the options of `day0 run` mean. Errors are Day0Errors, whose hint is the next step.
    """
    for name, value in (("max_context", max_context), ("max_batch", max_batch)):
        if value < 1:
            raise Day0Error(f"{name} is {value}; it must be 1 or more", hint="day0 run --help")
    both = partial(
        open_model, quant=quant, backend=backend, dummy=dummy, seed=seed, device=device,
        without=without, cache_dir=cache_dir,
    )  # fmt: skip
    main = partial(both, layers=layers, facts=facts, plugin=plugin)
    if speculate is None:
        opened = main(model)
    else:
        opened = open_with_drafts(model, speculate, draft_tokens, main=main, other=both)
    sizes = sizes_of(
        opened, max_context=max_context, max_batch=max_batch, max_memory=max_memory,
        prefixes=prefixes_of(prefix_cache, state_interval),
    )  # fmt: skip
    return Loaded(opened, sizes)


def jobs_for(
    opened: Opened, asks: Sequence[Ask], *, sampling: Sampling, ignore_eos: bool = False
) -> tuple[Job, ...]:
    """What is asked of a model, as jobs; needs no weights."""
    return jobs_of(
        asks, opened.text, name=opened.name, sampling=sampling, stop_ids=opened.stop_ids,
        ignore_eos=ignore_eos,
    )  # fmt: skip


def _listed(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int)):
        return [prompts]  # type: ignore[list-item]
    return list(prompts)  # type: ignore[arg-type]
