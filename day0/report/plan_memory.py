"""The plan `memory` for a terminal: a grid of batches and lengths, and the longest that fit."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from day0.analysis.analyze import Analysis
from day0.analysis.memory import BATCHES, Fits, MemoryPlan, memory
from day0.report.numbers import gib


def render(analysis: Analysis) -> RenderableType:
    """One grid for each way to hold the weights."""
    plan = memory(
        analysis.model, analysis.recipe, analysis.machine, context=analysis.spec.context_length
    )
    machine, assumed = plan.machine, plan.machine.assumed
    lines = [
        f"room {gib(plan.room)}: {assumed.usable:.0%} of {machine.count} x {machine.gpu.name} "
        f"({gib(machine.gpu.memory)} each) less {gib(plan.workspace)} of workspace"
    ]
    if plan.host_bytes:
        lines.append(f"on the host, not counted: lookup tables of {gib(plan.host_bytes)}")
    if plan.equal_block:
        lines.append(
            "an engine with one page size for attention and states derives pages of "
            f"{plan.equal_block:,} tokens; day0 keeps states in slots"
        )
    unknown = sum(entry.count for entry in analysis.entries if entry.family == "unknown")
    if unknown:
        lines.append(f"not counted: what {unknown} unknown operators hold")
    parts: list[RenderableType] = [Text(line, style="dim") for line in lines]
    for way in plan.ways:
        parts += [Text(), _title(way, plan), _grid(way)]
    return Group(*parts)


def _title(way: Fits, plan: MemoryPlan) -> Text:
    text = Text(f"weights {way.held_as}: {gib(way.weights)}")
    text.append(f", at least {way.gpus} x {plan.machine.gpu.name}")
    if way.gpus > plan.machine.count:
        text.append("   does not fit", style="red")
    return text


def _grid(way: Fits) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("tokens", justify="right")
    for batch in BATCHES:
        table.add_column(f"batch {batch}", justify="right")
    for tokens in dict.fromkeys(cell.tokens for cell in way.cells):
        cells = [cell for cell in way.cells if cell.tokens == tokens]
        table.add_row(
            f"{tokens:,}",
            *(Text(gib(cell.bytes), style="green" if cell.fits else "red") for cell in cells),
        )
    longest = (f"{way.longest[batch]:,}" if way.longest[batch] else "none" for batch in BATCHES)
    table.add_row("longest", *longest, style="bold")
    return table
