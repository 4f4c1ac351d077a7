"""The plan `precision` for a terminal: what runs in which format, and what that saves."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from day0.analysis.analyze import Analysis
from day0.analysis.precision import Line, precision
from day0.report.numbers import gib, plain

ACTION_STYLE = {"quantise": "cyan", "requantise": "yellow", "dequantise": "yellow", "cast": "dim"}


def render(analysis: Analysis) -> RenderableType:
    """Bytes and longest contexts, then all decisions, alike ones in one row."""
    plan = precision(
        analysis.model, analysis.recipe, analysis.machine, context=analysis.spec.context_length
    )
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for name in ("what", "used by"):
        table.add_column(name, no_wrap=True)
    table.add_column("of", justify="right", no_wrap=True)
    for name in ("stored -> runs", "computes"):
        table.add_column(name, no_wrap=True)
    for name in ("before", "after"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in plan.lines:
        table.add_row(*_cells(line))
    machine = f"{analysis.machine.count} x {analysis.machine.gpu.name}"
    lines = [
        f"weights {gib(plan.weights_before)} -> {gib(plan.weights_after)}",
        f"caches of one sequence of {plan.tokens:,} tokens {gib(plan.caches_before)} -> "
        f"{gib(plan.caches_after)}",
    ]
    for batch, before in plan.longest_before.items():
        after = plan.longest_after[batch]
        lines.append(
            f"longest context at batch {batch} on {machine}: {_tokens(before)} -> {_tokens(after)}"
        )
    return Group(*map(Text, lines), Text(), table, Text(), _reasons(plan.lines))


def _tokens(count: int) -> str:
    return f"{count:,} tokens" if count else "does not fit"


def _cells(line: Line) -> tuple[str | Text, ...]:
    runs = line.runs if line.stored == line.runs else f"{line.stored} -> {line.runs}"
    return (
        f"{line.kind} {plain(line.what)}",
        plain("+".join(line.families)),
        f"{line.count:,}",
        Text(runs, style=ACTION_STYLE.get(line.action, "")),
        line.compute,
        gib(line.before) if line.before else "-",
        gib(line.after) if line.after else "-",
    )


def _reasons(lines: Sequence[Line]) -> Table:
    """Once for each thing: what is done to it, with which scales, why, and what is at stake."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("what", no_wrap=True)
    table.add_column("is", no_wrap=True)
    table.add_column("why, and what is at stake", style="dim")
    told: dict[tuple[str, str, str], str] = {}
    for line in lines:
        scales = f"{line.scaling} scales, {line.granularity}" * (line.scaling != "none")
        said = "; ".join(part for part in (scales, line.why, line.risk) if part)
        told.setdefault((line.kind, line.what, said), line.action)
    for (kind, what, said), action in told.items():
        table.add_row(f"{kind} {plain(what)}", action, said)
    return table
