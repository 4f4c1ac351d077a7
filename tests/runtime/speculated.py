"""What tests of speculation share: scripted drafts, and plain output to compare with."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from day0.checkpoint.load import load
from day0.ir.recipe import RECIPES
from day0.models.read import read_model
from day0.passes.lower import SPECULATIVE, Lowered
from day0.runtime.limits import Sizes
from day0.runtime.request import Request
from day0.runtime.sampling import Sampling, next_token
from day0.runtime.session import Session, lowered_for, open_session
from day0.runtime.speculation import Fed, Speculation, Tables
from day0.runtime.step import Step

RECIPE = RECIPES["fp32"]
PROMPTS, TOKENS = (5, 17, 33, 1), 12
# Logits of a step of several rows and of one row differ by rounding, which may tip near equals.
NOISE = 1e-5
Ids = tuple[int, ...]


class Scripted:
    """Drafts that are all right, wrong from the first on, missing, or right up to a drawn place; in
    turn for each request, which begin at different turns."""

    taps: tuple[str, ...] = ()

    def __init__(self, truth: Mapping[Ids, Sequence[int]], vocab: int, seed: int) -> None:
        self._truth, self._vocab = truth, vocab
        self._draw = random.Random(seed)
        self._turns: dict[int, int] = {}

    def propose(
        self, requests: Sequence[Request], counts: Sequence[int], tables: Tables
    ) -> list[Ids]:
        return [self._one(one, count) for one, count in zip(requests, counts, strict=True)]

    def follow(self, step: Step, fed: Sequence[Fed], tapped: Mapping[str, torch.Tensor]) -> None:
        pass

    def forget(self, request: Request) -> None:
        pass

    def _one(self, request: Request, count: int) -> Ids:
        begin = len(request.tokens)
        turn = self._turns.get(request.number, request.number)
        self._turns[request.number] = turn + 1
        kept = list(self._truth[request.prompt][begin : begin + count])
        if turn % 4 == 2 or not kept:
            return ()
        if turn % 4 == 1 or turn % 4 == 3:
            wrong = 0 if turn % 4 == 1 else self._draw.randrange(len(kept))
            kept[wrong] = (kept[wrong] + 1) % self._vocab
        return tuple(kept[: self._draw.randrange(1, count + 1)] if turn % 8 == 4 else kept)


class Subject:
    """A checkpoint in fp32 on the definitions: `plain`, and sessions that check drafts."""

    def __init__(self, folder: Path) -> None:
        self._checkpoint = load(str(folder))
        self.folder = folder
        self.model = read_model(self._checkpoint).model
        self.lowered: Mapping[str, Lowered] = lowered_for(
            self.model, RECIPE, "reference", phases=SPECULATIVE
        )
        self.plain = self.session(0)

    def session(self, drafts: int, **words: Any) -> Session:
        sizes = Sizes(**{"tokens": 384, "sequences": 4, "drafts": drafts, **words})
        return open_session(
            self.model, RECIPE, headers=self._checkpoint.headers, folder=self.folder, sizes=sizes,
            lowered=self.lowered,
        )  # fmt: skip

    def prompts(self, seed: int) -> list[Ids]:
        draw, vocab = random.Random(seed), self.model.spec.vocab_size
        return [tuple(draw.randrange(vocab) for _ in range(count)) for count in PROMPTS]

    def scripted(self, session: Session, truth: Sequence[Request], seed: int) -> Speculation:
        """Scripted drafts for the session's next engine."""
        texts = {one.prompt: tuple(one.tokens) for one in truth}
        drafts = Scripted(texts, self.model.spec.vocab_size, seed)
        return drafting(session, drafts)


def drafting(session: Session, drafts: object) -> Speculation:
    """Drafts for the session's next engine, and their tally."""
    made = Speculation(drafts, session.limits.drafts, "scripted")  # pyright: ignore[reportArgumentType]
    session.speculation = lambda: made
    return made


def same(plain: Session, got: Sequence[Request], wanted: Sequence[Request]) -> None:
    """Token for token, or up to a place where rounding alone may tip the choice."""
    for ours, theirs in zip(got, wanted, strict=True):
        if ours.tokens == theirs.tokens:
            assert ours.finish == theirs.finish
            continue
        pairs = zip(ours.tokens, theirs.tokens, strict=False)
        at = next(place for place, (one, other) in enumerate(pairs) if one != other)
        row = plain.logits(theirs.tokens[:at])[-1]
        tipped = {
            next_token(
                row + NOISE * row.abs().max() * torch.randn_like(row), theirs.sampling,
                position=at, produced=at - len(theirs.prompt),
            )
            for _ in range(64)
        }  # fmt: skip
        assert ours.tokens[at] in tipped, (theirs.number, at)


def served(session: Session, prompts: Sequence[Ids], **words: float) -> list[Request]:
    """All prompts to their end."""
    return session.generate(prompts, Sampling(**{"max_new_tokens": TOKENS, **words}))  # pyright: ignore
