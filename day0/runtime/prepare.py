"""Everything compiled and captured before the first request, on padding alone.

Steps of all shapes that the sizes allow are run with page 0 and slot 0, which nobody owns. Prefill
steps run one layer of each kind: equal layers compile nothing new.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from day0.passes.warm_up import decode_sizes, prefill_rows
from day0.runtime.kernel_cache import COMPILES, watch
from day0.runtime.loader import DTYPES
from day0.runtime.session import Session
from day0.runtime.step import Step, graph_inputs, make_step


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
    steps, captured = 0, 0.0
    for one in filter(None, (session, session.follower)):
        for step in steps_of(one):
            one.warm(step, padding_inputs(one, step))
            steps += 1
        for graphs, rows in ((one.graphs, 1), (one.verify_graphs, one.limits.rows)):
            if graphs is None:
                continue
            for size in reversed(decode_sizes(one.limits.num_slots)):
                graphs.capture(size, padding_inputs(one, padding_step(one, [rows] * size)))
            captured += sum(graphs.capture_s.values())
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
        if "verify" in session.programs:
            yield padding_step(session, [limits.rows] * count, phase="verify")


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
        all_rows=phase == "verify",
    )


def padding_inputs(session: Session, step: Step) -> dict[str, torch.Tensor]:
    """What the graph reads beside the step, as the engine or a draft makes it."""
    graph = session.lowered[step.phase].graph
    if "hidden" in graph.inputs:
        width, plain = graph.values["hidden"].width, DTYPES[session.recipe.plain]
        return {
            "next_ids": torch.zeros(step.num_rows, dtype=torch.int32),
            "hidden": torch.zeros(step.num_rows, width, dtype=plain),
        }
    before: list[list[int]] = [[] for _ in range(step.num_sequences)] if session.history else []
    return graph_inputs([0] * step.num_rows, before, session.history, torch.device("cpu"))
