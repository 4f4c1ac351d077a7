"""The scheduling plan of a page."""

from collections.abc import Mapping
from typing import Any

from day0.report.numbers import spans
from day0.report.parts import Cell, Note, Notes, Part, Section, Table, whole, word
from day0.report.plan_schedule import short
from day0.report.sections.plain import FOLD, cell

FIGURES = ("launches", "serial_us", "scheduled_us", "critical_us")
TITLES = ("launches", "one after another", "in lanes", "longest chain")


def schedule(report: Mapping[str, Any]) -> Section:
    """Steps, blocks, what stands side by side in them, and what is compiled beforehand."""
    plan = report["schedule"]
    parts: list[Part] = [_phases(plan), _against(plan), _blocks(plan), _groups(plan)]
    parts.append(_warm_up(plan))
    overlap = ", ".join(plan["communication"]) or "none, one card sends nothing"
    return Section(
        id="schedule",
        title="Scheduling plan",
        lead="Operators that do not depend on each other run in two lanes where the rates of the "
        f"GPU say that it pays; times are predicted. Communication that can overlap: {overlap}.",
        parts=tuple(part for part in parts if not isinstance(part, Notes) or part.items),
    )


def _phases(plan: Mapping[str, Any]) -> Table:
    rows = tuple(
        (
            word(phase["phase"]),
            word("whole step" if phase["captured"] else "no",
                 tone="good" if phase["captured"] else "warn"),
            whole(phase["lanes"]),
            whole(phase["waits"]),
            *_figures(phase),
        )
        for phase in plan["phases"]
    )  # fmt: skip
    columns = ("step", "CUDA graph", "lanes", "waits", *TITLES)
    return Table(name="schedule.phases", columns=columns, rows=rows)


def _against(plan: Mapping[str, Any]) -> Notes:
    """Why a step is not captured."""
    return Notes(
        items=tuple(
            Note(severity="info", message=f"{phase['phase']} is not captured: {reason}")
            for phase in plan["phases"]
            for reason in phase["because"]
        )
    )


def _blocks(plan: Mapping[str, Any]) -> Table:
    rows = tuple(
        (
            word(block["phase"]),
            word(block["block"]),
            word(spans(block["layers"])),
            whole(block["ops"]),
            *_figures(block),
        )
        for block in plan["blocks"]
    )
    return Table(
        name="schedule.blocks",
        columns=("step", "block", "layers", "ops", *TITLES),
        rows=rows,
        caption="One layer of each kind, what comes before all layers and what comes after",
        folded=len(rows) > FOLD,
    )


def _groups(plan: Mapping[str, Any]) -> Table:
    found: dict[tuple[str, ...], tuple[Cell, ...]] = {}
    for block in plan["blocks"]:
        for group in block["groups"]:
            lanes = tuple(", ".join(map(short, lane)) for lane in group["lanes"])
            found.setdefault(
                (block["phase"], block["block"], *lanes),
                (
                    word(block["phase"]),
                    word(block["block"]),
                    *(word(lane, code=True) for lane in lanes),
                    cell("serial_us", group["serial_us"]),
                    cell("scheduled_us", group["scheduled_us"]),
                ),
            )
    return Table(
        name="schedule.groups",
        columns=("step", "block", "lane 0", "lane 1", *TITLES[1:3]),
        rows=tuple(found.values()),
        caption="What runs side by side",
    )


def _warm_up(plan: Mapping[str, Any]) -> Table:
    rows = tuple(
        (
            word(one["phase"]),
            word(one["family"]),
            word(one["impl"], code=True),
            word(one["sizes"]),
            whole(one["ops"]),
        )
        for one in plan["warm_up"]
    )
    decode, prefill = (", ".join(map(str, plan[key])) for key in ("decode_sizes", "prefill_rows"))
    return Table(
        name="schedule.warm_up",
        columns=("step", "operator", "kernel", "sizes", "ops"),
        rows=rows,
        caption=f"Compiled by day0 run --prepare, in decode steps of {decode} sequences and "
        f"prefill steps of {prefill} rows",
        folded=True,
    )


def _figures(record: Mapping[str, Any]) -> tuple[Cell, ...]:
    return tuple(cell(key, record[key]) for key in FIGURES)
