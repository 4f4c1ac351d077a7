"""Which batches of which lengths fit in the machine that is planned for."""

from collections.abc import Mapping
from typing import Any

from day0.report.numbers import gib
from day0.report.parts import Cell, Part, Table, Words, size
from day0.report.plot_units import tokens


def fits(report: Mapping[str, Any]) -> tuple[Part, ...]:
    """A grid for each way to hold the weights; () for a report without the plan."""
    plan = report["memory"].get("fits")
    if not plan:
        return ()
    room = (
        f"{plan['num_gpus']} x {plan['gpu']} have room for {gib(plan['room_bytes'])} of weights "
        f"and caches, workspace of {gib(plan['workspace_bytes'])} taken off. Counted as if both "
        "divided evenly; what a rank has to repeat, the parallelism plan says."
    )
    if plan["host_bytes"]:
        room += f" Lookup tables of {gib(plan['host_bytes'])} stay on the host."
    if plan["equal_block_tokens"]:
        room += (
            " An engine with one page size for attention and states derives pages of "
            f"{plan['equal_block_tokens']:,} tokens."
        )
    parts: list[Part] = [Words(text=room)]
    for number, way in enumerate(plan["ways"]):
        needs = f"at least {way['gpus_needed']} x {plan['gpu']}"
        parts.append(_grid(way, f"fits-{number}", needs))
    return tuple(parts)


def _grid(way: Mapping[str, Any], name: str, needs: str) -> Table:
    batches = [row["batch"] for row in way["longest"]]
    rows: list[tuple[Cell, ...]] = []
    for length in dict.fromkeys(cell["tokens"] for cell in way["cells"]):
        cells = [cell for cell in way["cells"] if cell["tokens"] == length]
        rows.append((Cell(text=tokens(length), value=length), *map(_cell, cells)))
    longest = (
        Cell(text=f"{row['tokens']:,} tokens" if row["tokens"] else "none", value=row["tokens"])
        for row in way["longest"]
    )
    rows.append((Cell(text="longest that fits"), *longest))
    return Table(
        name=name,
        columns=("tokens a sequence", *(f"batch {batch}" for batch in batches)),
        rows=tuple(rows),
        caption=f"Weights {way['weights']} ({gib(way['weight_bytes'])}, {needs}) and caches",
    )


def _cell(cell: Mapping[str, Any]) -> Cell:
    shown = size(cell["bytes"], tone="good" if cell["fits"] else "bad")
    return shown if cell["fits"] else Cell(text=f"{shown.text} (no)", value=shown.value, tone="bad")
