"""Everything compiled and captured before the first request, on padding alone.

Steps of all shapes that the sizes allow are run with page 0 and slot 0, which nobody owns. Prefill
steps run one layer of each kind: equal layers compile nothing new.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from day0.passes.warm_up import decode_sizes, prefill_rows
from day0.runtime.engine import graph_inputs
from day0.runtime.kernel_cache import COMPILES, watch
from day0.runtime.session import Session
from day0.runtime.step import Step, make_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """`steps` run; specialisations `compiled` now and `loaded` from the kernel cache, the seconds
    of both; seconds of graph captures; seconds of all."""

    steps: int = 0
    compiled: int = 0
    loaded: int = 0
    compile_s: float = 0.0
    graph_capture_s: float = 0.0
    seconds: float = 0.0


def prepare(session: Session) -> Prepared:
    """Make a session ready: afterwards nothing that its sizes allow is compiled. Nothing to do on a
    CPU."""
    if session.device.type != "cuda":
        return Prepared()
    began, count = time.perf_counter(), watch()
    before = count.compiled, count.loaded, count.seconds
    steps = 0
    for step in steps_of(session):
        session.warm(step, padding_inputs(session, step))
        steps += 1
    captured = 0.0
    if session.graphs is not None:
        for size in reversed(decode_sizes(session.limits.num_slots)):
            session.graphs.capture(size, padding_inputs(session, padding_step(session, [1] * size)))
        captured = sum(session.graphs.capture_s.values())
    logits = torch.zeros(session.limits.num_slots, session.model.spec.vocab_size,
                         device=session.device)  # fmt: skip
    logits.argmax(-1).tolist()  # as the engine asks
    torch.cuda.synchronize(session.device)
    COMPILES.ready()
    return Prepared(
        steps=steps,
        compiled=count.compiled - before[0],
        loaded=count.loaded - before[1],
        compile_s=count.seconds - before[2],
        graph_capture_s=captured,
        seconds=time.perf_counter() - began,
    )


def steps_of(session: Session) -> Iterator[Step]:
    """Padding steps of every shape: prefill by rows and sequences, the largest first, then decode
    by batch."""
    limits = session.limits
    sequences = decode_sizes(limits.num_slots)
    most = min(limits.chunk, session.sizes.tokens)
    for rows in reversed(prefill_rows(most)):
        for count in sequences:
            if count <= rows:
                yield padding_step(session, lengths(rows, count))
    for count in reversed(sequences):
        yield padding_step(session, [1] * count, phase="decode")


def lengths(rows: int, count: int) -> list[int]:
    """`rows` dealt out to `count` sequences."""
    return [rows // count + (number < rows % count) for number in range(count)]


def padding_step(session: Session, rows: list[int], phase: str = "prefill") -> Step:
    """Fresh sequences of so many rows each, all in page 0 and slot 0."""
    size = session.limits.page_size
    pages = [[0] * -(-count // size) for count in rows]
    return make_step(
        phase,
        starts=[0] * len(rows),
        lengths=rows,
        slots=[0] * len(rows),
        tables=dict.fromkeys(session.limits.num_pages, pages),
        device=torch.device("cpu"),
    )


def padding_inputs(session: Session, step: Step) -> dict[str, torch.Tensor]:
    """What the graph reads beside the step, as the engine makes it."""
    before: list[list[int]] = [[] for _ in range(step.num_sequences)] if session.history else []
    return graph_inputs([0] * step.num_rows, before, session.history, torch.device("cpu"))
