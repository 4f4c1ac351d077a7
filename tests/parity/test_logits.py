"""Logits and hidden rows against transformers, in fp32 on the definitions: prompts in one piece and
in chunks, decode steps, ragged batches, orders of requests, preemption."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from day0.errors import DoesNotFit
from day0.runtime.engine import Engine, Limits
from day0.runtime.sampling import Sampling
from tests.parity.served import Served
from tests.parity.subjects import TOLERANCE, Sequence, Subject, apart
from tests.tiny import TYPES

pytestmark = [pytest.mark.hf, pytest.mark.parametrize("subject", TYPES, indirect=True)]

CPU = torch.device("cpu")
CHUNKS = (1, 7, 3, 13, 1, 5)


def check(ours: torch.Tensor, theirs: torch.Tensor, rows: int) -> None:
    assert apart(ours[:rows], theirs[:rows]) <= TOLERANCE


def check_served(served: Served, sequences: tuple[Sequence, ...]) -> None:
    """Every clear row of every sequence, and every row of logits."""
    for number, sequence in enumerate(sequences):
        places, hidden = served.rows(served.hidden[number])
        assert places == list(range(len(sequence.ids)))
        check(hidden, sequence.hidden, sequence.clear)
        if sequence.logits is None:
            continue
        places, logits = served.rows(served.logits[number])
        clear = sum(place < sequence.clear for place in places)
        check(logits, sequence.logits[places], clear)
        assert places[-1] == len(sequence.ids) - 1


def asked(subject: Subject, order: tuple[int, ...]) -> list[tuple[int, tuple[int, ...], int]]:
    return [(n, subject.sequences[n].ids, subject.sequences[n].prompt) for n in order]


def limits(subject: Subject, **changes: Any) -> Limits:
    return replace(subject.session.limits, **changes)


@pytest.mark.parametrize("chunks", [(), CHUNKS], ids=["whole", "chunks"])
def test_prompt(subject: Subject, chunks: tuple[int, ...]) -> None:
    """All positions of the greedy sequence, prompt and continuation."""
    sequence = subject.sequences[0]
    assert sequence.clear >= sequence.prompt
    check(subject.session.hidden(sequence.ids, chunks=chunks), sequence.hidden, sequence.clear)
    if sequence.logits is not None:
        ours = subject.session.logits(sequence.ids, chunks=chunks)
        check(ours, sequence.logits, sequence.clear)


def test_decode(subject: Subject) -> None:
    """A prompt in odd chunks, then one step for each of the oracle's tokens."""
    served = Served(subject.session, limits(subject, chunk=13))
    served.serve(asked(subject, (0,)))
    check_served(served, subject.sequences[:1])
    assert [rows for phase, rows in served.batches if phase == "decode"] == [(1,)] * 20
    assert [rows for phase, rows in served.batches if phase == "prefill"][0] == (13,)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)], ids=["forth", "mixed"])
def test_ragged_batch(subject: Subject, order: tuple[int, ...]) -> None:
    """Three sequences of different lengths in one prefill step, and decoding together."""
    served = Served(subject.session, subject.session.limits)
    served.serve(asked(subject, order))
    check_served(served, subject.sequences)
    lengths = tuple(subject.sequences[n].prompt for n in order)
    assert served.batches[:2] == [("prefill", lengths), ("decode", (1, 1, 1))]
    assert served.again == 0


def test_preemption(subject: Subject) -> None:
    """Too few pages for all three: the youngest is put back and recomputed."""
    order = (1, 0, 2)
    few = short(subject, order, chunk=11)
    served = Served(subject.session, few)
    served.serve(asked(subject, order))
    check_served(served, subject.sequences)
    preemptions = sum(request.preemptions for request in served.requests.values())
    # Admission leaves room for whole windows: where nothing else is kept, nobody is put back.
    assert (preemptions > 0) == (served.again > 0) == (0 in few.num_pages)


def short(subject: Subject, order: tuple[int, ...], chunk: int) -> Limits:
    """The fewest pages with which somebody is put back, else the fewest that do at all; found by
    serving without a model."""
    fits = []
    for count in range(1, 12):
        few = dict.fromkeys(subject.session.limits.num_pages, count)
        found = limits(subject, num_pages=few, chunk=chunk)
        engine = Engine(lambda step, _: torch.zeros(step.num_sequences, 1), found, CPU)
        try:
            requests = [
                engine.add(ids[:prompt], Sampling(max_new_tokens=len(ids) - prompt + 1))
                for _, ids, prompt in asked(subject, order)
            ]
        except DoesNotFit:
            continue
        fits.append(found)
        for _ in engine.serve():
            pass
        if any(request.preemptions for request in requests):
            return found
    return fits[0]
