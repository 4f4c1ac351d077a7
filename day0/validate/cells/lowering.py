"""Cells of lowering and execution: passes, implementations, CUDA graphs and streams change no
number."""

from dataclasses import replace

from day0.passes.lower import OPTIONAL, SWITCHES
from day0.runtime.capture import BUCKETS
from day0.runtime.session import Session
from day0.validate.cell import Cell, Outcome, Way, compared
from day0.validate.direct import Direct, Look, Rows
from day0.validate.served import Served
from day0.validate.subject import Subject, clean


def passes(subject: Subject) -> Outcome:
    """The lowered graphs against the canonical one; where they part, the pass that does it."""
    found = compared(subject, _ways(subject), against=subject.session(without=tuple(OPTIONAL)))
    if found.status == "pass":
        return found
    session = subject.session()
    changed = {
        name: {op for lowered in session.lowered.values() for op in lowered.changed.get(name, ())}
        for name in OPTIONAL
    }
    blamed = [name for name, ops in changed.items() if found.op in ops]
    words = f" (changed by {', '.join(blamed)})" if blamed else ""
    return replace(found, detail=f"{found.detail}{words}")


def _ways(subject: Subject) -> list[Way]:
    """As serving runs it: only the last rows of a prefill step have logits."""

    def served(session: Session, look: Look | None) -> Rows:
        return Served(session, subject.sequences, look=look).serve(tuple(subject.sequences))

    def whole(session: Session, look: Look | None) -> Rows:
        direct = Direct(session, subject.sequences, look=look)
        for number in subject.sequences:
            direct.prefill(number)
        return direct.rows

    return [Way(name="prompts served", take=served), Way(name="all rows of a prompt", take=whole)]


def graph(subject: Subject) -> Outcome:
    """Decode by CUDA graphs, captured while prompts are live, against eager steps of the same
    number of rows."""
    session = subject.session()
    clean(session)
    size = next(size for size in BUCKETS if size >= len(subject.sequences))
    eager = Served(session, subject.sequences, padded_to=size).serve(tuple(subject.sequences))

    def take(session: Session, look: Look | None) -> Rows:
        served = Served(session, subject.sequences, look=look, eager=False)
        return served.serve(tuple(subject.sequences))

    way = Way(name="decode by CUDA graphs", take=take)
    return compared(subject, [way], expected=eager, tips=False)


def _no_graph(subject: Subject) -> str:
    if not subject.on_gpu:
        return "no GPU: CUDA graphs were not looked at"
    return "" if subject.session().graphs is not None else "an operator asks the host: no graphs"


def streams(subject: Subject) -> Outcome:
    """Several lanes against one, each served as it is, without anybody watching."""

    def take(session: Session, look: Look | None) -> Rows:
        served = Served(session, subject.sequences, look=look, eager=False)
        return served.serve(tuple(subject.sequences))

    one = subject.session(without=(*subject.opened.without, "streams"))
    clean(one)
    rows = take(one, None)
    way = Way(name="several lanes", take=take)
    return compared(subject, [way], expected=rows, tips=False)


def _no_streams(subject: Subject) -> str:
    if not subject.on_gpu:
        return "no GPU: streams were not looked at"
    return "" if "streams" in SWITCHES else "this build runs every op in one stream"


def implementations(subject: Subject) -> Outcome:
    """The implementations chosen here against the definitions."""
    definitions = subject.session(backend="reference")
    return compared(subject, _ways(subject), session=subject.session(), against=definitions)


def _no_implementations(subject: Subject) -> str:
    if subject.opened.backend == "reference":
        return "--backend reference: the definitions are what runs"
    chosen = subject.session().lowered["prefill"].choices.values()
    if all(choice.backend == "reference" for choice in chosen):
        return "no GPU: the definitions are what runs" if not subject.on_gpu else "definitions run"
    return ""


CELLS = (
    Cell(id="passes", title="canonical graph = lowered graph", run=passes),
    Cell(
        id="implementations",
        title="definitions = implementations",
        run=implementations,
        why_not=_no_implementations,
    ),
    Cell(id="graph", title="eager = CUDA graph", run=graph, why_not=_no_graph),
    Cell(id="streams", title="one stream = several", run=streams, why_not=_no_streams),
)
