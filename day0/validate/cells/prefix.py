"""The cell of prefix reuse: what goes on from pages and states of earlier texts is what a cold run
gives."""

from dataclasses import replace
from functools import partial

from day0.runtime.session import Session
from day0.validate.cell import Cell, Outcome, Way, compared
from day0.validate.direct import Look, Rows
from day0.validate.served import Served
from day0.validate.subject import Subject

BUDGET = 1 << 50  # bytes: pages run out first, and then prefixes go


def prefix(subject: Subject) -> Outcome:
    """Each text served, then all again: in whole pages of chunks, and from where a text ended."""

    def take(chunk: int, session: Session, look: Look | None) -> Rows:
        limits = replace(session.limits, chunk=min(chunk, session.limits.chunk))
        served = Served(session, subject.sequences, limits=limits, look=look, prefix_bytes=BUDGET)
        for _ in range(2):
            served.serve(tuple(subject.sequences))
        return served.rows

    ways = [
        Way(name=f"resumed, chunks of {chunk}", take=partial(take, chunk)) for chunk in (8192, 19)
    ]
    return compared(subject, ways)


CELLS = (Cell(id="prefix", title="cold = resumed from a prefix", run=prefix),)
