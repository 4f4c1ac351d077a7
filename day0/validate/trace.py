"""Values of one run by name, and the first op of another run whose rows differ from them.

Passes keep the names of what survives them (a value of fewer rows is called `<name>.last`), so
equal names can be compared between any two runs: canonical and lowered, whole and in pieces.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch

from day0.ir.op import Op
from day0.runtime.binder import Call, Frame
from day0.validate.direct import Owner

_NARROWED = ".last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where two runs part: the op, its layer, and the sequence and position of its worst row."""

    op: Op
    error: float
    number: int
    position: int

    @property
    def words(self) -> str:
        layer = "outside the layers" if self.op.layer < 0 else f"layer {self.op.layer}"
        return (
            f"{layer}, {self.op.family} {self.op.id} "
            f"(sequence {self.number}, position {self.position}, off by {self.error:.2g})"
        )


class Trace:
    """A Look that keeps every value of every row, or of the values named in `only`."""

    def __init__(self, only: Collection[str] | None = None) -> None:
        self._only = only
        self.order: dict[str, int] = {}
        self._rows: dict[str, dict[int, dict[int, torch.Tensor]]] = {}

    def __call__(self, call: Call, frame: Frame, owners: tuple[Owner, ...]) -> None:
        for name, number, start, rows in _owned(call, frame, owners):
            if self._only is not None and name not in self._only:
                continue
            self.order.setdefault(name, len(self.order))
            table = self._rows.setdefault(name, {}).setdefault(number, {})
            for offset, row in enumerate(rows.cpu()):
                table[start + offset] = row

    def rows(self, name: str, number: int, start: int, length: int) -> torch.Tensor | None:
        """[length, ...] of a value, None where the run gave them not all."""
        table = self._rows.get(name, {}).get(number, {})
        found = [table.get(start + offset) for offset in range(length)]
        return None if any(row is None for row in found) else torch.stack(found)  # type: ignore[arg-type]

    def scale(self, name: str) -> float:
        """The largest magnitude of a value."""
        rows = (row for table in self._rows[name].values() for row in table.values())
        return max(float(row.abs().max()) for row in rows if row.numel())


class Parting:
    """A Look that compares a run with a Trace.

    `first`: the place that comes first in the program's order; None where every common value
    agrees within `bound`. `tipped`: by op, rows whose choice (of experts, of entries) was another;
    with `force` such a row goes on with the choice of the Trace, so that what follows can still be
    compared, and counts as a difference only in `tipped`.
    """

    def __init__(
        self, trace: Trace, bound: float, *, choices: bool = True, force: bool = False
    ) -> None:
        """`choices`: selected entries and experts count too, not numbers alone."""
        self.first: Place | None = None
        self.last_op: Op | None = None
        self.tipped: dict[str, int] = {}
        self.chosen: dict[str, int] = {}
        self._trace = trace
        self._bound = bound
        self._choices = choices
        self._force = force
        self._scales: dict[str, float] = {}

    def __call__(self, call: Call, frame: Frame, owners: tuple[Owner, ...]) -> None:
        self.last_op = call.op
        if self._force:
            self._follow(call, frame, owners)
        for name, number, start, rows in _owned(call, frame, owners):
            theirs = self._trace.rows(name, number, start, len(rows))
            if theirs is None or theirs.shape != rows.shape or not len(rows):
                continue
            if not (self._choices or rows.is_floating_point()):
                continue
            errors = self._errors(name, rows.cpu(), theirs)
            worst = int(errors.argmax())
            error = float(errors[worst])
            if error <= self._bound:
                continue
            order = self._trace.order
            if self.first is None or order[name] < order[_name(self.first.op)]:
                self.first = Place(op=call.op, error=error, number=number, position=start + worst)

    def _follow(self, call: Call, frame: Frame, owners: tuple[Owner, ...]) -> None:
        """Where a row chose otherwise, all outputs of its op become those of the Trace."""
        whole = [
            (rows, theirs)
            for name, number, start, rows in _owned(call, frame, owners)
            if (theirs := self._trace.rows(name, number, start, len(rows))) is not None
        ]
        choices = [pair for pair in whole if not pair[0].is_floating_point()]
        for rows, theirs in choices:
            same = (rows.cpu().sort(-1).values == theirs.sort(-1).values).all(-1)
            op = call.op.id
            self.chosen[op] = self.chosen.get(op, 0) + len(same)
            self.tipped[op] = self.tipped.get(op, 0) + int((~same).sum())
        if choices and len(whole) == len(list(_owned(call, frame, owners))):
            for rows, theirs in whole:  # rows are views of the frame's values
                rows.copy_(theirs)

    def _errors(self, name: str, ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
        """[rows]: relative to the value's largest magnitude; a choice in any order, or infinite."""
        ours, theirs = ours.flatten(1), theirs.flatten(1)
        if not ours.is_floating_point():
            same = (ours.sort(-1).values == theirs.sort(-1).values).all(-1)
            return torch.where(same, 0.0, float("inf"))
        if name not in self._scales:
            self._scales[name] = self._trace.scale(name) or 1.0
        errors = (ours.float() - theirs.float()).abs().amax(-1) / self._scales[name]
        return torch.where(errors.isnan(), float("inf"), errors)


def _name(op: Op) -> str:
    return op.outputs[0][1].removesuffix(_NARROWED)


def _owned(
    call: Call, frame: Frame, owners: tuple[Owner, ...]
) -> Iterator[tuple[str, int, int, torch.Tensor]]:
    """(name, sequence, first position, rows) of each output of a call."""
    step = frame.step
    for _, value in call.op.outputs:
        rows, name = frame.values[value].detach(), value.removesuffix(_NARROWED)
        if rows.dim() < 2:
            continue
        if len(rows) == step.num_rows:
            for owner in owners:
                part = rows[owner.first : owner.first + owner.length]
                yield name, owner.number, owner.start, part
        elif len(rows) == len(step.last) == step.num_sequences:
            for place, owner in enumerate(owners):
                yield name, owner.number, owner.start + owner.length - 1, rows[place : place + 1]
