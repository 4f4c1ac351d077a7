"""The plan `quant` for a terminal: what the checkpoint is quantised to and what its lists say."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from day0.analysis.analyze import Analysis
from day0.analysis.quant_lists import capabilities, exclusions
from day0.report.numbers import count, gib, plain

SHOWN = 20  # entries of the lists


def render(analysis: Analysis) -> RenderableType:
    """Stored formats, list entries with what they name, conflicts, and the GPU's units."""
    audit, gpu = analysis.quant, analysis.machine.gpu
    source = analysis.quant_source or "no record of a quantisation"
    parts: list[RenderableType] = [Text(f"{audit.coverage:.2f} % of parameters; {plain(source)}")]
    stored = _table("format", "tensors", "params", "bytes")
    for row in audit.stored:
        stored.add_row(row.format, f"{row.weights:,}", count(row.parameters), gib(row.bytes))
    parts += [Text(), stored]
    listed = exclusions(analysis.model, analysis.quant_config, headers=analysis.headers is not None)
    if listed:
        table = _table("excluded", "entries", "tensors", "params", "stored quantised")
        for one in listed[:SHOWN]:
            table.add_row(plain(one.entry), f"{one.entries:,}", f"{one.weights:,}",
                          count(one.params), f"{one.quantised:,}")  # fmt: skip
        parts += [Text(), table]
        if len(listed) > SHOWN:
            parts.append(Text(f"and {len(listed) - SHOWN} more", style="dim"))
    runs = sorted({analysis.recipe.weight(weight) for weight in analysis.model.weights.values()})
    found = capabilities([*(row.format for row in audit.stored), *runs], gpu)
    if found:
        table = _table("format", f"on {gpu.name}", numbers=False)
        for one in found:
            table.add_row(one.format, one.words)
        parts += [Text(), table]
    for finding in audit.conflicts:
        parts.append(Text(f"{finding.severity:8}{plain(finding.message)} [{finding.code}]"))
        parts += [Text(f"        {plain(name)}", style="dim") for name in finding.evidence[:6]]
    return Group(*parts)


def _table(first: str, *rest: str, numbers: bool = True) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column(first, overflow="fold")
    for name in rest:
        table.add_column(name, justify="right" if numbers else "left", no_wrap=numbers)
    return table
