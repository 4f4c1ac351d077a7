"""The consistency matrix as a table of colours, and the sweep over lengths."""

from collections.abc import Mapping
from typing import Any

from day0.report.parts import Cell, Part, Section, Table, whole, word

TONES = {"pass": "good", "fail": "bad", "skip": "dim"}


def matrix(report: Mapping[str, Any]) -> Section:
    """Every cell with what it found and, where it fails, the first op that differs."""
    rows = tuple(
        (
            _status(cell),
            word(cell["id"], code=True),
            word(cell["title"]),
            word(cell["detail"]),
            word(_place(cell)),
        )
        for cell in report["cells"]
    )
    model = report["model"]
    depth = (
        "the whole model"
        if model["checked_layers"] == model["layers"]
        else f"the first {model['checked_layers']} of {model['layers']} layers"
    )
    return Section(
        id="matrix",
        title="Consistency",
        lead="Two ways to the same logits must agree. State is compared in fp32, where what "
        f"differs is no rounding, on {depth}; a failure names the first operator that differs.",
        parts=(
            Table(
                name="matrix",
                columns=("", "cell", "must be equal", "found", "first difference"),
                rows=rows,
            ),
        ),
    )


def lengths(report: Mapping[str, Any]) -> Section:
    """Every length of the sweep, and where 32-bit offsets would end."""
    rows = tuple(
        (
            _status(row),
            whole(row["tokens"]),
            word(row["at"]),
            word(row["detail"]),
            word(None if row["error"] is None else f"{row['error']:.1e}"),
            whole(row["positions"]),
        )
        for row in report["lengths"]
    )
    parts: list[Part] = [
        Table(
            name="lengths",
            columns=("", "tokens", "border", "prefilled in", "difference", "positions"),
            rows=rows,
        )
    ]
    if report["limits"]:
        parts.append(_limits(report["limits"]))
    return Section(
        id="lengths",
        title="Lengths",
        lead="Prompts below, at and above every border of the model, then doubling: logits must be "
        "finite, and the same when the prompt is cut in another way.",
        parts=tuple(parts),
    )


def _limits(rows: list[Mapping[str, Any]]) -> Table:
    return Table(
        name="limits",
        columns=("counted in", "tensor", "elements a row", "rows at 2^31", "rows here"),
        rows=tuple(
            (
                word(row["what"]),
                word(row["name"], code=True),
                whole(row["elements_per_row"]),
                whole(row["rows_at_limit"]),
                whole(row["rows_here"], tone="warn" if row["beyond"] else ""),
            )
            for row in rows
        ),
        caption="Where a tensor has 2^31 elements: beyond it, offsets of 32 bits are wrong",
        folded=True,
    )


def _status(row: Mapping[str, Any]) -> Cell:
    return word(row["status"], tone=TONES[row["status"]])


def _place(cell: Mapping[str, Any]) -> str:
    if cell["op"]:
        return f"layer {cell['layer']}, {cell['family']}"
    if cell["suspects"]:
        return f"layer {cell['layer']}, among {', '.join(cell['suspects'])}"
    return ""
