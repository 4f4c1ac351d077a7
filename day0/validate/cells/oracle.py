"""The cell that compares with another implementation, layer by layer."""

import random
from dataclasses import dataclass

import torch

from day0.errors import Day0Error
from day0.ir.op import Op
from day0.passes.lower import OPTIONAL
from day0.runtime.opening import Opened
from day0.validate.cell import TOLERANCE, Cell, Outcome, finite
from day0.validate.direct import Direct
from day0.validate.oracle import Seen, Transformers, matches, suspects
from day0.validate.sequences import Known
from day0.validate.subject import EXACT, Subject, clean
from day0.validate.trace import Trace

# A choice between scores that rounding tips makes a random prompt differ now and then; a fault
# does so in most of them.
PROMPTS = 3


def must_have_files(opened: Opened) -> None:
    """Day0Error where there is nothing for an oracle to read."""
    if opened.folder is None or opened.dummy_seed is not None:
        raise Day0Error(
            f"--oracle reads the checkpoint's files; {opened.name} is run on made-up weights",
            hint="day0 validate FOLDER --oracle transformers, without --dummy",
        )
    if any("layers are run, the rest left out" in note for note in opened.notes):
        raise Day0Error(
            "--oracle compares whole models; --layers leaves layers out",
            hint=f"day0 validate {opened.name} --oracle transformers",
        )


def oracle(subject: Subject) -> Outcome:
    """Logits of whole prompts, then the values of modules up to the first that differs."""
    assert subject.opened.folder is not None, "must_have_files has looked"
    other = Transformers(subject.opened.folder)
    found = [_one(subject, other, number) for number in range(PROMPTS)]
    bound = TOLERANCE[EXACT]
    bad = [one for one in found if one.error > bound]
    said = f"{other.name}, {max(one.points for one in found)} values of modules"
    if len(bad) <= PROMPTS // 2:
        tipped = f"; {len(bad)} of {PROMPTS} prompts tipped by rounding" if bad else ""
        agreed = max(one.error for one in found if one.error <= bound)
        return Outcome(status="pass", detail=said + tipped, error=agreed, bound=bound)
    worst = bad[0]
    first = worst.ops[0] if worst.ops else None
    layer = next((op.layer for op in worst.ops if op.layer >= 0), first.layer if first else None)
    return Outcome(
        status="fail",
        detail=f"{said}: logits are off by {worst.error:.2g} in {len(bad)} of {PROMPTS} prompts; "
        f"{worst.words}",
        error=finite(worst.error),
        bound=bound,
        layer=layer,
        op=first.id if first and len(worst.ops) == 1 else "",
        family=first.family if first and len(worst.ops) == 1 else "",
        suspects=tuple(dict.fromkeys(op.family for op in worst.ops)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """`ops`: those among which the first difference is made; `points`: values compared."""

    error: float
    points: int = 0
    ops: tuple[Op, ...] = ()
    words: str = ""


def _one(subject: Subject, other: Transformers, number: int) -> _Found:
    known = subject.sequences[0]
    draw = random.Random(subject.seed + 7919 * number)
    ids = tuple(draw.randrange(subject.model.spec.vocab_size) for _ in known.ids)
    seen = other.run(ids)
    session = subject.session(without=tuple(OPTIONAL))
    trace = Trace()
    clean(session)
    direct = Direct(session, {0: Known(ids=ids, prompt=len(ids))}, look=trace)
    direct.prefill(0)
    logits = torch.stack([direct.rows[0][at] for at in range(len(ids))])
    error = _error(logits, seen.logits) if seen.logits is not None else 0.0
    if seen.logits is None and seen.hidden is not None:
        rows = trace.rows(_after_norm(subject), 0, 0, len(ids))
        error = float("inf") if rows is None else _error(rows, seen.hidden)
    return _located(subject, trace, seen, error, len(ids))


def _located(subject: Subject, trace: Trace, seen: Seen, error: float, length: int) -> _Found:
    graph, bound = subject.model.graphs["main"], TOLERANCE[EXACT]
    good, points = set(graph.inputs), 0
    for match in matches(subject.model, graph, seen.modules):
        sides = zip(("reads", "gives"), (match.op.inputs, match.op.outputs), strict=True)
        for (side, slots), theirs in zip(sides, seen.modules[match.module], strict=True):
            value = slots[0][1]
            ours = trace.rows(value, 0, 0, length)
            if ours is None or value in good or ours.numel() != theirs.numel():
                continue
            points += 1
            off = _error(ours, theirs)
            if off <= bound:
                good.add(value)
                continue
            if error <= bound:
                continue  # the logits agree: the module gives its result in another form
            between = suspects(graph, value, frozenset(good))
            layers = sorted({op.layer for op in between})
            named = ", ".join(dict.fromkeys(op.family for op in between))
            return _Found(
                error=error,
                points=points,
                ops=between,
                words=f"first at what {match.module} {side} (off by {off:.2g}): layer "
                f"{', '.join(map(str, layers))}, among {named}",
            )
    rest = tuple(suspects(graph, graph.outputs[0], frozenset(good)))
    return _Found(
        error=error,
        points=points,
        ops=rest,
        words=f"behind every module compared, among {', '.join(op.family for op in rest)}",
    )


def _after_norm(subject: Subject) -> str:
    ops = subject.model.graphs["main"].ops
    return next(op for op in ops if op.family == "take_rows").inputs[0][1]


def _error(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """max |a - b| / max |b| of tensors with the same elements in the same order."""
    theirs = theirs.reshape(ours.shape)
    error = float((ours.float() - theirs).abs().max() / theirs.abs().max().clamp_min(1e-30))
    return error if error == error else float("inf")


CELL = Cell(id="oracle", title="this = another implementation", run=oracle)
