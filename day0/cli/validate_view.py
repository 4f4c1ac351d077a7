"""What `day0 validate` shows in a terminal: a view of its JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

COLOURS = {"pass": "green", "fail": "red", "skip": "dim"}
SHOWN = ("median_ttft_ms", "median_tpot_ms", "p99_itl_ms", "output_throughput")


def summary(data: Mapping[str, Any], files: Sequence[str]) -> RenderableType:
    """The matrix, the lengths in a line, the grid, and where the report is."""
    model, cells = data["model"], data["cells"]
    head = (
        f"{model['id']}: {model['layers']} layers, {data['recipe']}, backend {data['backend']} on "
        f"{data['environment']['device_name']}, seed {data['seed']}"
    )
    parts: list[RenderableType] = [Text(head)]
    if cells:
        if model["checked_layers"] != model["layers"]:
            parts.append(Text(f"cells and lengths on the first {model['checked_layers']} layers"))
        parts += ["", _matrix(cells)]
    if data["lengths"]:
        parts += ["", Text(_lengths(data["lengths"]))]
    if data["grid"]:
        parts += ["", _grid(data["grid"]), Text(_others(data["metrics"]))]
    worse = [row["name"] for row in data["baseline"] if row["regression"]]
    if data["baseline"]:
        parts.append(Text(f"against the baseline: {', '.join(worse) or 'nothing'} is worse"))
    parts += ["", _verdict(data["verdict"], cells)]
    if files:
        parts.append(Text(f"report: {', '.join(files)}"))
    return Group(*parts)


def _matrix(cells: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(width=5)
    table.add_column(width=16)
    table.add_column(ratio=2)
    table.add_column(ratio=3)
    for cell in cells:
        status = Text(cell["status"], style=COLOURS[cell["status"]])
        table.add_row(status, cell["id"], cell["title"], Text(cell["detail"]))
    return table


def _lengths(rows: Sequence[Mapping[str, Any]]) -> str:
    ran = [row for row in rows if row["status"] != "skip"]
    failed = [row for row in ran if row["status"] == "fail"]
    left = f", {len(rows) - len(ran)} longer ones not reached" if len(ran) < len(rows) else ""
    if failed:
        first = failed[0]
        said = f"{len(failed)} fail, first {first['tokens']} ({first['at']}): {first['detail']}"
    else:
        said = "finite and the same however cut"
    longest = max((row["tokens"] for row in ran), default=0)
    return f"lengths: {len(ran)} up to {longest:,} tokens: {said}{left}"


def _grid(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("batch", "input", "output", *SHOWN, "spread", box=None, pad_edge=False)
    for column in table.columns:
        column.justify = "right"
    for row in rows:
        figures = [_number(row["figures"][name]) for name in SHOWN]
        spread = max((value for value in row["spreads"].values() if value), default=0.0)
        table.add_row(
            str(row["batch"]), str(row["input"]), str(row["output"]), *figures, f"{spread:.0%}"
        )
    return table


def _others(metrics: Sequence[Mapping[str, Any]]) -> str:
    names = ("cold_ttft_ms", "warm_ttft_ms", "load_s", "compile_s", "graph_capture_s",
             "jit_compiles_after_ready", "launches_per_layer")  # fmt: skip
    values = {row["name"]: row["value"] for row in metrics}
    return ", ".join(f"{name} {_number(values.get(name))}" for name in names)


def _verdict(verdict: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> Text:
    skipped = [cell["id"] for cell in cells if cell["status"] == "skip"]
    left = f"; not looked at: {', '.join(skipped)}" if skipped else ""
    if verdict["status"] == "pass":
        return Text(f"pass: nothing fails{left}")
    named = [
        f"{kind} {', '.join(map(str, verdict[kind]))}"
        for kind in ("cells", "lengths", "bounds")
        if verdict[kind]
    ]
    return Text(f"FAIL: {'; '.join(named)}{left}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"
