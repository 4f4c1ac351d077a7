"""One cell of the consistency matrix: two ways to the same logits, and what to say where they
part."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from day0.runtime.session import Session
from day0.validate.direct import Look, Rows
from day0.validate.subject import EXACT, Subject, clean
from day0.validate.trace import Parting, Place, Trace

# max |a - b| / max |b| of logits; in fp32 as in the parity tests, which hold it for every type.
TOLERANCE: Mapping[str, float] = {"fp32": 1e-4}
# Values before the logits may differ by less for the logits to differ by that.
CLOSER = 0.1
# Share of an op's rows in which rounding may tip a choice between nearly equal scores.
TIPPED = 0.005
# What a wrong program raises, as torch and the runtime do.
RAISED = (RuntimeError, IndexError, KeyError, ValueError, AssertionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a cell found. `status` "pass", "fail" or "skip"; `error` of its measure and the `bound`
    it had to keep; `layer`, `op`, `family` of the first op that differs; `suspects`: families of
    the ops among which it is, where it cannot be told closer; `figures` by metric name."""

    status: str
    detail: str
    error: float | None = None
    bound: float | None = None
    layer: int | None = None
    op: str = ""
    family: str = ""
    suspects: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """`id` in reports; `title`: what must equal what; `run` looks; `why_not` says why it cannot be
    looked at here, "" where it can."""

    id: str
    title: str
    run: Callable[[Subject], Outcome]
    why_not: Callable[[Subject], str] = lambda subject: ""

    def look(self, subject: Subject) -> Outcome:
        """Run the cell, or say why not."""
        reason = self.why_not(subject)
        if reason:
            return Outcome(status="skip", detail=reason)
        try:
            return self.run(subject)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            words = "the device's memory is full; --check-layers with fewer, or --max-context"
            return Outcome(status="skip", detail=words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Another way to the logits; `take(session, look)` runs it, `prepare` readies the caches."""

    name: str
    take: Callable[[Session, Look | None], Rows]
    prepare: Callable[[Session], None] = clean


def compared(
    subject: Subject,
    ways: Sequence[Way],
    *,
    session: Session | None = None,
    against: Session | None = None,
    expected: Rows | None = None,
    bound: float = TOLERANCE[EXACT],
    tips: bool = True,
) -> Outcome:
    """Each way on `session` against undisturbed prompts on `against` (the same session), or
    against `expected`. `tips`:
    the ways sum in other orders, so that rounding may tip a choice between equals now and then."""
    session = session or subject.session()
    against = against or session
    expected = subject.expected(against) if expected is None else expected
    worst, tipped = 0.0, 0
    for way in ways:
        way.prepare(session)
        try:
            rows = way.take(session, None)
        except torch.OutOfMemoryError:
            raise
        except RAISED as error:
            return _raised(subject, session, against, way, error)
        error, number, position = furthest(expected, rows)
        if error > bound and tips:
            again, rows_tipped = _followed(subject, session, against, way, bound)
            tipped += rows_tipped
            # what does not happen again is no rounding: the run itself changes
            error = again if again <= bound and rows_tipped else error
        worst = max(worst, error)
        if error > bound:
            place = _parting(subject, session, against, way, bound).first
            return failed(way.name, error, bound, place, number, position)
    named = f"{len(ways)} ways, furthest {worst:.1e}" if len(ways) > 1 else f"{worst:.1e} apart"
    if tipped:
        named += f"; rounding tipped {tipped} choices, which were followed"
    return Outcome(status="pass", detail=named, error=worst, bound=bound)


def furthest(expected: Rows, rows: Rows) -> tuple[float, int, int]:
    """(max |a - b| / max |b| of a sequence's logits, its number, the position); infinite where a
    value is no number or a sequence has no row at all."""
    worst = (0.0, 0, 0)
    for number, table in rows.items():
        if not table:
            return float("inf"), number, 0
        scale = max(float(row.abs().max()) for row in expected[number].values()) or 1.0
        for position, row in table.items():
            error = float((row - expected[number][position]).abs().max()) / scale
            if error != error:
                error = float("inf")
            worst = max(worst, (error, number, position))
    return worst


def failed(
    what: str, error: float, bound: float, place: Place | None, number: int, position: int
) -> Outcome:
    """A failure with the place where the two ways part."""
    said = f"{what}: logits of sequence {number} at {position} are off by {error:.2g}"
    if place is None:
        return Outcome(
            status="fail",
            error=finite(error),
            bound=bound,
            detail=f"{said}; looked at again, every value that both ways have agrees: a row "
            "that is taken, or something that differs from run to run",
        )
    return Outcome(
        status="fail",
        error=finite(error),
        bound=bound,
        detail=f"{said}; first at {place.words}",
        layer=place.op.layer,
        op=place.op.id,
        family=place.op.family,
    )


def finite(error: float) -> float:
    """JSON knows no infinity: the largest number in its place."""
    return min(error, torch.finfo(torch.float32).max)


def _followed(
    subject: Subject, session: Session, against: Session, way: Way, bound: float
) -> tuple[float, int]:
    """(error, rows tipped) of the way where it follows the choices of undisturbed prompts; an
    infinite error where more rows chose otherwise than rounding explains, or a number differs."""
    trace = Trace()
    expected = subject.undisturbed(against, trace)
    parting = Parting(trace, bound, force=True)
    way.prepare(session)
    error, _, _ = furthest(expected, way.take(session, parting))
    for op, rows in parting.tipped.items():
        if rows > max(1, TIPPED * parting.chosen[op]):
            return float("inf"), 0
    return (float("inf") if parting.first else error), sum(parting.tipped.values())


def _parting(
    subject: Subject, session: Session, against: Session, way: Way, bound: float
) -> Parting:
    trace = Trace()
    subject.undisturbed(against, trace)
    parting = Parting(trace, CLOSER * bound)
    way.prepare(session)
    way.take(session, parting)
    return parting


def _raised(
    subject: Subject, session: Session, against: Session, way: Way, error: Exception
) -> Outcome:
    """The op that raised: the one after the last that ran."""
    trace = Trace()
    subject.undisturbed(against, trace)
    parting, op = Parting(trace, float("inf")), None
    way.prepare(session)
    try:
        way.take(session, parting)
    except RAISED:
        last = parting.last_op
        for program in session.programs.values():
            ops = [call.op for call in program.calls]
            if last in ops and ops.index(last) + 1 < len(ops):
                op = ops[ops.index(last) + 1]
    said = f"{way.name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if op is None:
        return Outcome(status="fail", detail=f"{said}, outside the operators")
    return Outcome(
        status="fail",
        detail=f"{said}, in layer {op.layer}, {op.family} {op.id}",
        layer=op.layer,
        op=op.id,
        family=op.family,
    )


def words_of(values: Mapping[str, Any]) -> str:
    """Figures in one line."""
    return ", ".join(f"{name} {value:.4g}" for name, value in values.items())
