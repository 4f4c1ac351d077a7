"""Values of one run by name, and the first op of another run whose rows differ from them.

Passes keep the names of what survives them (a value of fewer rows is called `<name>.last`), so
equal names can be compared between any two runs: canonical and lowered, whole and in pieces.
"""

from collections.abc import Iterator
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
    """A Look that keeps every value of every row."""

    def __init__(self) -> None:
        self.order: dict[str, int] = {}
        self._rows: dict[str, dict[int, dict[int, torch.Tensor]]] = {}

    def __call__(self, call: Call, frame: Frame, owners: tuple[Owner, ...]) -> None:
        for name, number, start, rows in _owned(call, frame, owners):
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
    """A Look that compares a run with a Trace. `first`: the place that comes first in the
    program's order; None where every common value agrees within `bound`."""

    def __init__(self, trace: Trace, bound: float, *, choices: bool = True) -> None:
        """`choices`: selected entries and experts count too, not numbers alone."""
        self.first: Place | None = None
        self.last_op: Op | None = None
        self.compared = 0
        self._trace = trace
        self._bound = bound
        self._choices = choices
        self._scales: dict[str, float] = {}

    def __call__(self, call: Call, frame: Frame, owners: tuple[Owner, ...]) -> None:
        self.last_op = call.op
        for name, number, start, rows in _owned(call, frame, owners):
            theirs = self._trace.rows(name, number, start, len(rows))
            if theirs is None or theirs.shape != rows.shape:
                continue
            if not (self._choices or rows.is_floating_point()):
                continue
            self.compared += 1
            errors = self._errors(name, rows.cpu(), theirs)
            worst = int(errors.argmax())
            error = float(errors[worst])
            if error <= self._bound:
                continue
            order = self._trace.order
            if self.first is None or order[name] < order[_name(self.first.op)]:
                self.first = Place(op=call.op, error=error, number=number, position=start + worst)

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
