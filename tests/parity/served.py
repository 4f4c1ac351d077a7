"""Serving known sequences through the engine: every row that any step computed is recorded, and
each next token is the sequence's own, whatever the logits say."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import torch

from day0.runtime.engine import Engine
from day0.runtime.pools import Limits
from day0.runtime.request import Request
from day0.runtime.sampling import Sampling
from day0.runtime.session import Session
from day0.runtime.step import Step
from tests.parity.subjects import DEVICE, TOLERANCE, apart

MARGIN = 1e-5  # a hundred times the rounding of one fp32 sum
ATTEMPTS = 20


class Plain(Protocol):
    """A model in plain torch: [T, H] after the final norm and [T, V], from ids [T]. `margin`: the
    least relative distance so far between a score that was chosen and one that was not."""

    margin: float

    def hidden(self, ids: torch.Tensor) -> torch.Tensor: ...

    def logits(self, ids: torch.Tensor) -> torch.Tensor: ...


class Served:
    """Engine runs over a session. `hidden`, `logits`: by sequence number and position, the latest
    row computed there (no `hidden` where a pass leaves them out); `batches`: sequences of each
    step; `again`: rows computed more than once."""

    def __init__(self, session: Session, limits: Limits) -> None:
        self.session = session
        self.engine = Engine(self._run, limits, torch.device(DEVICE), history=session.history)
        self.requests: dict[int, Request] = {}
        self.sequences: dict[int, tuple[int, ...]] = {}
        self.hidden: dict[int, dict[int, torch.Tensor]] = {}
        self.logits: dict[int, dict[int, torch.Tensor]] = {}
        self.seen: dict[int, set[int]] = {}
        self.batches: list[tuple[str, tuple[int, ...]]] = []
        self.again = 0
        main = session.model.graphs["main"]
        taken = next(op for op in main.ops if op.family == "take_rows").inputs[0][1]
        # after the final norm, all rows of a step
        self._rows = (taken,) if taken in session.programs["prefill"].graph.values else ()

    def serve(self, sequences: Iterable[tuple[int, tuple[int, ...], int]]) -> None:
        """Serve (number, ids, length of the prompt) in this order until all ids were fed."""
        for number, ids, prompt in sequences:
            sampling = Sampling(max_new_tokens=len(ids) - prompt + 1)
            self.sequences[number] = ids
            self.hidden[number], self.logits[number], self.seen[number] = {}, {}, set()
            self.requests[number] = self.engine.add(ids[:prompt], sampling)
        for _ in self.engine.serve():
            pass

    def rows(self, table: Mapping[int, torch.Tensor]) -> tuple[list[int], torch.Tensor]:
        """(positions, [rows, ...]) of one sequence in `hidden` or `logits`."""
        places = sorted(table)
        return places, torch.stack([table[place] for place in places])

    def _run(self, step: Step, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        name = self.session.logits_name
        found = self.session.run(step, inputs, keep=self._rows)
        at = {request.slot: number for number, request in self.requests.items() if request.slot}
        forced = torch.zeros_like(found[name])
        for row, slot in enumerate(step.slot.tolist()):
            number = at[slot]
            first, last = step.cu_seqlens[row : row + 2].tolist()
            start = int(step.start[row])
            for offset in range(last - first):
                self.again += start + offset in self.seen[number]
                self.seen[number].add(start + offset)
                for value in self._rows:
                    self.hidden[number][start + offset] = found[value][first + offset]
            end = start + last - first
            self.logits[number][end - 1] = found[name][row]
            ids = self.sequences[number]
            forced[row, ids[end] if end < len(ids) else 0] = 1
        self.batches.append((step.phase, tuple(step.length.tolist())))
        return forced


def clear_ids(plain: Plain, vocab: int, length: int, seed: int) -> torch.Tensor:
    """[length] random ids at which rounding tips none of the model's choices."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(ATTEMPTS):
        ids = torch.randint(vocab, (length,), generator=generator)
        plain.margin = float("inf")
        plain.hidden(ids)
        if plain.margin > MARGIN:
            return ids
    raise AssertionError(f"no clear ids among {ATTEMPTS} draws, the last at {plain.margin:.1e}")


def check_served(
    plain: Plain, session: Session, sequences: Sequence[torch.Tensor], prompts: Sequence[int]
) -> None:
    """Prompts of these lengths in one ragged step, then decoded together: rows as in `plain`."""
    served = Served(session, session.limits)
    served.serve((n, tuple(ids.tolist()), prompts[n]) for n, ids in enumerate(sequences))
    assert served.batches[0] == ("prefill", tuple(prompts))
    for number, ids in enumerate(sequences):
        if "narrow" not in session.lowered["prefill"].changed:
            places, hidden = served.rows(served.hidden[number])
            assert places == list(range(len(ids)))
            assert apart(hidden, plain.hidden(ids)) <= TOLERANCE
        places, logits = served.rows(served.logits[number])
        assert apart(logits, plain.logits(ids)[places]) <= TOLERANCE
