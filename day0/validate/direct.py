"""Steps made by hand over a session's caches: any order of prefill and decode, any page table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from day0.runtime.binder import Call, Frame
from day0.runtime.session import Session
from day0.runtime.step import graph_inputs, make_step
from day0.validate.sequences import Known

CPU = torch.device("cpu")
Rows = dict[int, dict[int, torch.Tensor]]  # sequence -> position -> logits [V] in fp32, on the CPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Rows `first` to `first + length` of a step are the tokens of sequence `number` from position
    `start` on."""

    number: int
    start: int
    first: int
    length: int


Look = Callable[[Call, Frame, tuple[Owner, ...]], None]


class Direct:
    """Sequences fed in steps. `rows` collects the logits of every row that a step gave."""

    def __init__(
        self,
        session: Session,
        sequences: Mapping[int, Known],
        *,
        look: Look | None = None,
        eager: bool = True,
        scattered: bool = True,
        all_rows: bool = True,
    ) -> None:
        """`eager`: decode without CUDA graphs, as any look needs it. `scattered`: pages of the
        sequences take turns. `all_rows`: logits of every row of a prefill step, else the last's."""
        self.session = session
        self.sequences = sequences
        self.rows: Rows = {number: {} for number in sequences}
        self._look = look
        self._eager = eager
        self._all_rows = all_rows
        self._done = dict.fromkeys(sequences, 0)
        self._pages = _pages(session, sequences, scattered)

    def feed(self, phase: str, asked: Sequence[tuple[int, int]]) -> None:
        """One step: the next `rows` tokens of each (sequence, rows)."""
        session, ids, before = self.session, list[int](), list[list[int]]()
        owners, first = [], 0
        for number, rows in asked:
            start, tokens = self._done[number], self.sequences[number].ids
            ids += tokens[start : start + rows]
            before.append(list(tokens[:start]))
            owners.append(Owner(number=number, start=start, first=first, length=rows))
            first += rows
        size = session.limits.page_size
        step = make_step(
            phase,
            starts=[owner.start for owner in owners],
            lengths=[owner.length for owner in owners],
            slots=[list(self.sequences).index(owner.number) + 1 for owner in owners],
            tables={
                span: [
                    self._pages[owner.number][: -(-(owner.start + owner.length) // size)]
                    for owner in owners
                ]
                for span in session.limits.num_pages
            },
            device=CPU,
            all_rows=self._all_rows or phase == "decode",
        )
        inputs = graph_inputs(ids, before, session.history, CPU)
        found = session.run(step, inputs, watch=self._watch(tuple(owners)))[session.logits_name]
        record(self.rows, found, owners)
        for owner in owners:
            self._done[owner.number] += owner.length

    def _watch(self, owners: tuple[Owner, ...]) -> Callable[[Call, Frame], None] | None:
        look = self._look
        if look is not None:
            return lambda call, frame: look(call, frame, owners)
        return (lambda call, frame: None) if self._eager else None

    def prefill(self, number: int, pieces: Sequence[int] = (), end: int | None = None) -> None:
        """A sequence up to `end` (all of it) in pieces of these lengths, the rest in one."""
        end = len(self.sequences[number].ids) if end is None else end
        for rows in (*pieces, end):
            rows = min(rows, end - self._done[number])
            if rows > 0:
                self.feed("prefill", [(number, rows)])

    def decode(self, numbers: Sequence[int]) -> None:
        """One token a step for all of them, until each is at its end."""
        while live := [n for n in numbers if self._done[n] < len(self.sequences[n].ids)]:
            self.feed("decode", [(number, 1) for number in live])


def record(
    rows: Rows, logits: torch.Tensor, owners: Sequence[Owner], *, whole: bool = False
) -> None:
    """Put logits into `rows`: of all rows of the step (`whole`: for certain, even where owners do
    not name all), or of each sequence's last."""
    logits = logits.detach().float().cpu()
    whole = whole or len(logits) == sum(owner.length for owner in owners)
    for place, owner in enumerate(owners):
        if not whole:
            rows[owner.number][owner.start + owner.length - 1] = logits[place]
            continue
        for offset in range(owner.length):
            rows[owner.number][owner.start + offset] = logits[owner.first + offset]


def _pages(
    session: Session, sequences: Mapping[int, Known], scattered: bool
) -> dict[int, list[int]]:
    """Page numbers of every sequence, the same in each span."""
    size = session.limits.page_size
    need = {number: -(-len(one.ids) // size) for number, one in sequences.items()}
    turns = [(turn, number) for number, pages in need.items() for turn in range(pages)]
    order = sorted(turns) if scattered else turns
    found: dict[int, list[int]] = {number: [] for number in sequences}
    for page, (_, number) in enumerate(order, 1):
        found[number].append(page)
    return found
