"""Cells of state: what is kept between steps must make every cut and every order equal."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from day0.errors import DoesNotFit
from day0.runtime.engine import Engine
from day0.runtime.pools import Limits
from day0.runtime.sampling import Sampling
from day0.runtime.session import Session
from day0.validate.cell import Cell, Outcome, Way, compared
from day0.validate.direct import CPU, Direct, Look, Rows
from day0.validate.sequences import Known, cuts
from day0.validate.served import Served
from day0.validate.subject import Subject, soil

LONG = 0
# Sequences of at most so many tokens are decoded from their first token on.
WHOLLY_DECODED = 128
_Take = Callable[[Session, Look | None], Rows]


def chunks(subject: Subject) -> Outcome:
    """The long prompt cut at, before and behind every border, and in odd pieces."""
    known = {LONG: subject.sequences[LONG]}

    def take(pieces: tuple[int, ...], session: Session, look: Look | None) -> Rows:
        direct = Direct(session, known, look=look)
        direct.prefill(LONG, pieces)
        return direct.rows

    ways = [
        Way(
            name=f"prefill in pieces of {', '.join(map(str, pieces))}, rest",
            take=partial(take, pieces),
        )
        for pieces in cuts(len(known[LONG].ids), list(subject.borders))
    ]
    return compared(subject, ways)


def decode(subject: Subject) -> Outcome:
    """Decode from the first token on, and from the end of the prompt."""

    def take(number: int, start: int, session: Session, look: Look | None) -> Rows:
        direct = Direct(session, {number: subject.sequences[number]}, look=look)
        direct.prefill(number, end=start)
        direct.decode([number])
        return direct.rows

    def way(number: int, start: int) -> Way:
        name = f"sequence {number} decoded from token {start} on"
        return Way(name=name, take=partial(take, number, start))

    ways = [way(LONG, subject.sequences[LONG].prompt)]
    wholly = [n for n, one in subject.sequences.items() if len(one.ids) <= WHOLLY_DECODED]
    return compared(subject, [*ways, *(way(number, 1) for number in wholly[:1])])


def batch(subject: Subject) -> Outcome:
    """All prompts in one ragged step, then all decoded together."""
    return compared(
        subject, [Way(name="one ragged batch", take=_together(subject, ascending=True))]
    )


def order(subject: Subject) -> Outcome:
    """The same with the sequences the other way round, through the engine in chunks."""

    def engine(session: Session, look: Look | None) -> Rows:
        limits = replace(session.limits, chunk=19)
        served = Served(session, subject.sequences, limits=limits, look=look)
        return served.serve(sorted(subject.sequences, reverse=True))

    turned = Way(name="batch turned round", take=_together(subject, ascending=False))
    return compared(subject, [turned, Way(name="engine in chunks of 19", take=engine)])


def padding(subject: Subject) -> Outcome:
    """Decode steps padded as for CUDA graphs, with the padding run alone before each."""

    def take(session: Session, look: Look | None) -> Rows:
        rows = len(subject.sequences) + 3
        served = Served(session, subject.sequences, look=look, padded_to=rows)
        return served.serve(tuple(subject.sequences))

    return compared(subject, [Way(name="padded decode steps", take=take)])


def evict(subject: Subject) -> Outcome:
    """Too few pages: requests are put back and recomputed."""
    found = scarce(subject)
    assert found is not None, "why_not has looked"
    limits, known = found

    def take(session: Session, look: Look | None) -> Rows:
        served = Served(session, known, limits=limits, look=look)
        return served.serve(tuple(known))

    return compared(subject, [Way(name="recomputed after being put back", take=take)])


def scarce(subject: Subject) -> tuple[Limits, dict[int, Known]] | None:
    """Limits under which the engine puts somebody back, and the sequences for it; found by serving
    without a model. None where no number of pages does it (where only windows are kept)."""
    session = subject.session()
    if not session.limits.num_pages:
        return None
    span = min(session.limits.num_pages)
    short = {number: one for number, one in subject.sequences.items() if number != LONG}
    for known in (short, subject.sequences):
        for count in range(2, 1 + session.limits.num_pages[span]):
            pages = {**session.limits.num_pages, span: count}
            limits = replace(session.limits, num_pages=pages, chunk=min(session.limits.chunk, 11))
            engine = Engine(lambda step, _: torch.zeros(step.num_sequences, 1), limits, CPU)
            try:
                requests = [
                    engine.add(one.ids[: one.prompt], Sampling(max_new_tokens=_new(one)))
                    for one in known.values()
                ]
            except DoesNotFit:
                continue
            for _ in engine.serve():
                pass
            if any(request.preemptions for request in requests):
                return limits, dict(known)
    return None


def reuse(subject: Subject) -> Outcome:
    """One slot for all, one after the other, in caches full of what others left."""

    def take(session: Session, look: Look | None) -> Rows:
        limits = replace(session.limits, num_slots=1)
        served = Served(session, subject.sequences, limits=limits, look=look)
        return served.serve(tuple(subject.sequences))

    way = Way(name="slots and pages of others", take=take, prepare=partial(soil, seed=subject.seed))
    return compared(subject, [way])


def causal(subject: Subject) -> Outcome:
    """Other tokens behind a row change nothing in it."""
    one = subject.sequences[LONG]
    half = len(one.ids) - len(one.ids) // 4
    vocab = subject.model.spec.vocab_size
    other = tuple((token + 1 + token % 7) % vocab for token in one.ids[half:])

    def take(session: Session, look: Look | None) -> Rows:
        changed = Known(ids=(*one.ids[:half], *other), prompt=one.prompt)
        seen = None if look is None else _before(look, half)
        direct = Direct(session, {LONG: changed}, look=seen)
        direct.prefill(LONG)
        return {LONG: {at: row for at, row in direct.rows[LONG].items() if at < half}}

    return compared(subject, [Way(name=f"other tokens from {half} on", take=take)], tips=False)


def _before(look: Look, end: int) -> Look:
    """Shows a Look the rows before `end` alone."""

    def seen(call, frame, owners) -> None:
        look(call, frame, tuple(replace(o, length=min(o.length, end - o.start)) for o in owners))

    return seen


def repeat(subject: Subject) -> Outcome:
    """The same prompts again give the same bits, in caches of the same state."""

    def take(session: Session, look: Look | None) -> Rows:
        return subject.undisturbed(session, look)

    ways = [Way(name=f"run {number}", take=take) for number in (2, 3)]
    return compared(subject, ways, bound=0.0, tips=False)


def _new(one: Known) -> int:
    return len(one.ids) - one.prompt + 1


def _together(subject: Subject, *, ascending: bool) -> _Take:
    numbers = sorted(subject.sequences, reverse=not ascending)

    def take(session: Session, look: Look | None) -> Rows:
        direct = Direct(session, {n: subject.sequences[n] for n in numbers}, look=look)
        direct.feed("prefill", [(n, subject.sequences[n].prompt) for n in numbers])
        direct.decode(numbers)
        return direct.rows

    return take


CELLS = (
    Cell(id="repeat", title="the same prompt again = the same bits", run=repeat),
    Cell(id="causal", title="what comes later = no change before it", run=causal),
    Cell(id="chunks", title="one-shot prefill = chunked prefill", run=chunks),
    Cell(id="decode", title="prefill = decode token by token", run=decode),
    Cell(id="batch", title="each alone = one ragged batch", run=batch),
    Cell(id="order", title="one order = another order", run=order),
    Cell(id="padding", title="a batch = the batch with padded rows", run=padding),
    Cell(
        id="evict",
        title="uninterrupted = put back and recomputed",
        run=evict,
        why_not=lambda subject: "" if scarce(subject) else "no pages of this model run out",
    ),
    Cell(id="reuse", title="clean caches = caches that others used", run=reuse),
)
