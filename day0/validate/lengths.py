"""Long prompts: finite logits at every length, equal however they are cut, and where 32-bit
offsets would end."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from day0.runtime.session import Session
from day0.validate.cell import RAISED, finite, furthest
from day0.validate.sequences import Known
from day0.validate.served import Served
from day0.validate.subject import Subject, clean

MOST = 2**31  # elements a signed 32-bit offset reaches
BUDGET_S = 60.0
# Wide, as over thousands of rows rounding tips some choices of experts, whose traces remain in
# later rows; state that is lost or an offset that wraps moves logits by all of their size.
APART = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """One length. `status` "pass", "fail" or "skip"; `at`: which border it is about; `error` of
    the logits at `positions` sampled ones between two ways to cut the prompt."""

    tokens: int
    at: str
    status: str
    detail: str
    error: float | None = None
    positions: int = 0
    seconds: float = 0.0

    def row(self) -> dict[str, Any]:
        """As JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def lengths_of(subject: Subject) -> list[tuple[int, str]]:
    """Before, at and behind every border, then doubling up to the longest."""
    found: dict[int, str] = {}
    for size, what in subject.borders.items():
        for tokens, where in ((size - 1, "below"), (size, "at"), (size + 1, "above")):
            if 1 <= tokens <= subject.longest:
                found.setdefault(tokens, f"{where} {what}")
    tokens = 1 << (max(subject.borders) - 1).bit_length()
    while tokens < subject.longest:
        found.setdefault(tokens, "doubling")
        tokens *= 2
    found.setdefault(subject.longest, "longest")
    return sorted(found.items())


def sweep(subject: Subject, budget_s: float = BUDGET_S) -> Iterator[Length]:
    """Every length, shortest first; what is left when the time is over is said to be skipped."""
    session, start = subject.session(), time.perf_counter()
    took = 0.0
    for tokens, what in lengths_of(subject):
        spent = time.perf_counter() - start
        if spent + 2 * took > budget_s:
            yield Length(
                tokens=tokens, at=what, status="skip", detail=f"after {spent:.0f} s no time is left"
            )
            continue
        began = time.perf_counter()
        found = _one(subject, session, tokens, what)
        took = time.perf_counter() - began
        yield replace(found, seconds=round(took, 3))


def _one(subject: Subject, session: Session, tokens: int, what: str) -> Length:
    draw = random.Random(subject.seed + tokens)
    ids = tuple(draw.randrange(subject.model.spec.vocab_size) for _ in range(tokens))
    known = {0: Known(ids=ids, prompt=tokens)}
    chunk = min(session.limits.chunk, max(2, tokens))
    halves = max(1, chunk // 2)
    rows = []
    try:
        for rows_a_step in (2 * halves, halves):
            clean(session)
            limits = replace(session.limits, chunk=rows_a_step)
            rows.append(Served(session, known, limits=limits).serve((0,)))
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        words = "the device's memory is full"
        return Length(tokens=tokens, at=what, status="skip", detail=words)
    except RAISED as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        return Length(tokens=tokens, at=what, status="fail", detail=words)
    common = {0: {at: row for at, row in rows[1][0].items() if at in rows[0][0]}}
    error, _, position = furthest(rows[0], common)
    finite_rows = all(bool(row.isfinite().all()) for row in rows[0][0].values())
    fine = finite_rows and error <= APART
    detail = f"steps of {2 * halves} and {halves} rows"
    if not finite_rows:
        detail += ": logits are not finite"
    elif not fine:
        detail += f": off at {position}"
    return Length(
        tokens=tokens,
        at=what,
        status="pass" if fine else "fail",
        detail=detail,
        error=finite(error),
        positions=len(common[0]),
    )


def limits_of(session: Session) -> list[dict[str, Any]]:
    """Where a tensor reaches 2^31 elements: the widest value of a prefill step, and every paged
    cache, by the tokens that all sequences together may hold."""
    graph = session.lowered["prefill"].graph
    widest = max(graph.values, key=lambda name: graph.values[name].width)
    width = graph.values[widest].width
    found = [_limit("rows of a prefill step", widest, width, session.limits.chunk)]
    for name, parts in session.storage.parts.items():
        cache = session.storage.caches[name]
        for part, tensor in parts.items():
            if cache.growth not in ("per-token", "pooled"):
                continue
            entries = tensor.shape[0] * tensor.shape[1]
            per_token = tensor.numel() / entries / cache.every
            found.append(
                _limit("tokens of a cache", f"{name}.{part}", per_token, entries * cache.every)
            )
    rows = {(row["what"], row["elements_per_row"]): row for row in reversed(found)}
    return sorted(rows.values(), key=lambda row: row["rows_at_limit"])


def _limit(what: str, name: str, per_row: float, rows: int) -> dict[str, Any]:
    return {
        "what": what,
        "name": name,
        "elements_per_row": per_row,
        "rows_at_limit": int(MOST // max(per_row, 1e-9)),
        "rows_here": rows,
        "beyond": rows * per_row >= MOST,
    }
