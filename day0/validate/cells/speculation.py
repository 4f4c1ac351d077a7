"""The cell of speculation: steps that check drafts, of which some stay, leave every state as steps
of one token do."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch

from day0.runtime.request import Request
from day0.runtime.session import Session
from day0.runtime.speculation import Fed, Tables
from day0.runtime.step import Step
from day0.validate.cell import Cell, Outcome, Way, compared
from day0.validate.direct import Look, Rows
from day0.validate.served import Served
from day0.validate.subject import Subject

DRAFTS = 3
# Share of proposals with a wrong token somewhere; the rest are right, shorter or missing.
WRONG = 0.6


class Scripted:
    """Drafts of known texts, right up to a drawn place; sometimes none."""

    taps: tuple[str, ...] = ()

    def __init__(self, text: Callable[[Request], Sequence[int]], vocab: int, seed: int) -> None:
        self._text, self._vocab, self._draw = text, vocab, random.Random(seed)

    def propose(
        self, requests: Sequence[Request], counts: Sequence[int], tables: Tables
    ) -> list[tuple[int, ...]]:
        return [self._one(one, count) for one, count in zip(requests, counts, strict=True)]

    def follow(self, step: Step, fed: Sequence[Fed], tapped: Mapping[str, torch.Tensor]) -> None:
        pass

    def forget(self, request: Request) -> None:
        pass

    def _one(self, request: Request, count: int) -> tuple[int, ...]:
        begin, draw = len(request.tokens), self._draw
        drafts = list(self._text(request)[begin : begin + count])
        drafts = drafts[: draw.choice((0, count, count, draw.randrange(count + 1)))]
        if drafts and draw.random() < WRONG:
            wrong = draw.randrange(len(drafts))
            drafts[wrong] = (drafts[wrong] + 1 + draw.randrange(self._vocab - 1)) % self._vocab
        return tuple(drafts)


def drafts(subject: Subject) -> Outcome:
    """Known texts through verify steps with right, wrong, short and no drafts side by side."""

    def take(chunk: int, session: Session, look: Look | None) -> Rows:
        limits = replace(session.limits, chunk=min(chunk, session.limits.chunk))
        served = Served(session, subject.sequences, limits=limits, look=look)
        vocab = subject.model.spec.vocab_size
        served.draft(lambda text: Scripted(text, vocab, subject.seed + chunk))
        return served.serve(tuple(subject.sequences))

    return compared(
        subject,
        [
            Way(name=f"verify steps after chunks of {chunk}", take=partial(take, chunk))
            for chunk in (8192, 19)
        ],
        session=subject.verifying(DRAFTS),
        against=subject.session(),
    )


CELLS = (Cell(id="drafts", title="decode = drafts checked together", run=drafts),)
