"""The consistency matrix: all cells, run one after the other."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from day0.errors import Day0Error
from day0.validate.cell import Cell, Outcome
from day0.validate.cells import lowering, oracle, prefix, recipe, speculation, state
from day0.validate.subject import Subject

# What is cheap and explains most comes first.
CELLS: tuple[Cell, ...] = (
    *state.CELLS,
    *speculation.CELLS,
    *prefix.CELLS,
    *lowering.CELLS,
    *recipe.CELLS,
)
NAMES = (*(cell.id for cell in CELLS), oracle.CELL.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A cell and what it found; `seconds` it took."""

    cell: Cell
    outcome: Outcome
    seconds: float

    def row(self) -> dict[str, Any]:
        """As JSON."""
        found = self.outcome
        return {
            "id": self.cell.id,
            "title": self.cell.title,
            "status": found.status,
            "detail": found.detail,
            "error": found.error,
            "bound": found.bound,
            "layer": found.layer,
            "op": found.op,
            "family": found.family,
            "suspects": list(found.suspects),
            "seconds": round(self.seconds, 3),
        }


def cells_called(names: Sequence[str], *, with_oracle: bool) -> tuple[Cell, ...]:
    """The cells of these names (all for none), in the matrix's order."""
    known = (*CELLS, oracle.CELL)
    for name in names:
        if name not in NAMES:
            raise Day0Error(
                f"--cell is {name!r}; it must be one of {', '.join(NAMES)}",
                hint="day0 validate MODEL --cell decode",
            )
    wanted: Collection[str] = names or [cell.id for cell in CELLS]
    if with_oracle:
        wanted = {*wanted, oracle.CELL.id}
    elif oracle.CELL.id in wanted:
        raise Day0Error(
            "--cell oracle needs to know which", hint="day0 validate MODEL --oracle transformers"
        )
    return tuple(cell for cell in known if cell.id in wanted)


def look(
    subject: Subject,
    cells: Sequence[Cell] = CELLS,
    *,
    progress: Callable[[int, int, str], None] | None = None,
) -> tuple[Looked, ...]:
    """Every cell's outcome. `progress(cells done, of, the next one's title)`."""
    found = []
    for number, cell in enumerate(cells):
        if progress is not None:
            progress(number, len(cells), cell.title)
        start = time.perf_counter()
        outcome = cell.look(subject)
        found.append(Looked(cell=cell, outcome=outcome, seconds=time.perf_counter() - start))
    return tuple(found)
