"""Logits and hidden rows against transformers, in fp32 on the definitions: prompts in one piece and
in chunks, decode steps, ragged batches, orders of requests, preemption."""

from dataclasses import replace

import pytest

from day0.runtime.engine import Limits
from tests.parity.served import Served
from tests.parity.subjects import TOLERANCE, Sequence, Subject, apart
from tests.tiny import TYPES

pytestmark = [pytest.mark.hf, pytest.mark.parametrize("subject", TYPES, indirect=True)]

CHUNKS = (1, 7, 3, 13, 1, 5)


def check(ours, theirs, rows: int) -> None:
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


def limits(subject: Subject, **changes) -> Limits:
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
    size = subject.session.limits.page_size
    longest = len(subject.sequences[0].ids) + 1
    few = dict.fromkeys(subject.session.limits.num_pages, -(-longest // size) + 1)
    served = Served(subject.session, limits(subject, num_pages=few, chunk=11))
    served.serve(asked(subject, (1, 0, 2)))
    check_served(served, subject.sequences)
    assert sum(request.preemptions for request in served.requests.values()) > 0
    assert served.again > 0
