"""Logits and hidden rows against transformers, in fp32 on the definitions: prompts in one piece and
in chunks, decode steps, ragged batches, orders of requests, preemption."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from day0.errors import DoesNotFit
from day0.runtime.engine import Engine
from day0.runtime.pools import Limits
from day0.runtime.sampling import Sampling
from tests.parity.served import Served
from tests.parity.subjects import Subject
from tests.tiny import TYPES

pytestmark = [pytest.mark.hf, pytest.mark.parametrize("subject", TYPES, indirect=True)]

CPU = torch.device("cpu")
CHUNKS = (1, 7, 3, 13, 1, 5)


def check_served(served: Served, subject: Subject, order: tuple[int, ...]) -> None:
    """Every clear row of every sequence, and every row of logits."""
    for number, sequence in enumerate(subject.sequences[n] for n in order):
        places, hidden = served.rows(served.hidden[number])
        assert places == list(range(len(sequence.ids)))
        sequence.check(hidden, "hidden")
        places, logits = served.rows(served.logits[number])
        assert places[-1] == len(sequence.ids) - 1
        if sequence.has_head:
            sequence.check(logits, "logits", places)


def asked(subject: Subject, order: tuple[int, ...]) -> list[tuple[int, tuple[int, ...], int]]:
    """What `Served` wants: place in the order, ids, length of the prompt."""
    chosen = [subject.sequences[n] for n in order]
    return [(place, one.ids, one.prompt) for place, one in enumerate(chosen)]


@pytest.mark.parametrize("chunks", [(), CHUNKS], ids=["whole", "chunks"])
def test_prompt(subject: Subject, chunks: tuple[int, ...]) -> None:
    """All positions of the greedy sequence, prompt and continuation."""
    sequence = subject.sequences[0]
    assert sequence.clear >= sequence.prompt
    sequence.check(subject.session.hidden(sequence.ids, chunks=chunks), "hidden")
    if sequence.has_head:
        sequence.check(subject.session.logits(sequence.ids, chunks=chunks), "logits")


def test_decode(subject: Subject) -> None:
    """A prompt in odd chunks, then one step for each of the oracle's tokens."""
    served = Served(subject.plain, replace(subject.plain.limits, chunk=13))
    served.serve(asked(subject, (0,)))
    check_served(served, subject, (0,))
    assert [rows for phase, rows in served.batches if phase == "decode"] == [(1,)] * 20
    assert [rows for phase, rows in served.batches if phase == "prefill"][0] == (13,)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)], ids=["forth", "mixed"])
def test_ragged_batch(subject: Subject, order: tuple[int, ...]) -> None:
    """Three sequences of different lengths in one prefill step, and decoding together."""
    served = Served(subject.plain, subject.plain.limits)
    served.serve(asked(subject, order))
    check_served(served, subject, order)
    lengths = tuple(subject.sequences[n].prompt for n in order)
    assert served.batches[:2] == [("prefill", lengths), ("decode", (1, 1, 1))]
    assert served.again == 0


def test_preemption(subject: Subject) -> None:
    """Too few pages for all: the youngest is put back and recomputed."""
    few, order = short(subject, chunk=11)
    served = Served(subject.plain, few)
    served.serve(asked(subject, order))
    check_served(served, subject, order)
    preemptions = sum(request.preemptions for request in served.requests.values())
    assert (preemptions > 0) == (served.again > 0)
    # Where only windows are kept, admission may leave room for all of them.
    assert preemptions > 0 or 0 not in few.num_pages


def short(subject: Subject, chunk: int) -> tuple[Limits, tuple[int, ...]]:
    """Limits and an order of requests with which somebody is put back, else the fewest pages that
    do at all; found by serving without a model."""
    fits = []
    for order, count in product(((1, 0, 2), (0, 0, 1), (1, 1, 0), (2, 2, 0)), range(1, 12)):
        pages = dict.fromkeys(subject.session.limits.num_pages, 12)
        pages[min(pages)] = count  # those for all tokens, if there are such
        found = replace(subject.session.limits, num_pages=pages, chunk=chunk)
        engine = Engine(lambda step, _: torch.zeros(step.num_sequences, 1), found, CPU)
        try:
            requests = [
                engine.add(ids[:prompt], Sampling(max_new_tokens=len(ids) - prompt + 1))
                for _, ids, prompt in asked(subject, order)
            ]
        except DoesNotFit:
            continue
        fits.append((found, order))
        for _ in engine.serve():
            pass
        if any(request.preemptions for request in requests):
            return found, order
    return fits[0]


def test_passes(subject: Subject) -> None:
    """All optional passes together change no row of logits beyond the tolerance."""
    order = (0, 1, 2)
    served = Served(subject.session, replace(subject.session.limits, chunk=19))
    served.serve(asked(subject, order))
    for number, sequence in enumerate(subject.sequences[n] for n in order):
        places, logits = served.rows(served.logits[number])
        assert places[-1] == len(sequence.ids) - 1
        if sequence.has_head:
            sequence.check(logits, "logits", places)
