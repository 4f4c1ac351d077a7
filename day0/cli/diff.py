"""day0 diff: what one model has that another has not."""

from typing import TYPE_CHECKING

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from day0.cli import options
from day0.cli.output import emit, emit_json, errors
from day0.errors import Day0Error

if TYPE_CHECKING:
    from day0.analysis.diff import Diff

FORMATS = ("human", "json")
SHOWN = 12  # operators of one side that only it has


def difference(
    a: options.ModelName,
    b: options.OtherModel,
    quant: options.Quant = "bf16",
    format: options.Format = "human",
    out: options.Out = None,
    strict: options.StrictDiff = False,
    require_headers: options.RequireHeaders = False,
    plugin: options.Plugin = None,
    cache_dir: options.CacheDir = None,
) -> None:
    """Compare two models: mechanisms and attributes in words, figures, operators.

    Examples:

        day0 diff catalog:moonshotai--kimi-k3 catalog:moonshotai--kimi-linear-48b-a3b-instruct

        day0 diff org/model@new org/model@old --strict
    """
    from day0.analysis.analyze import analyze
    from day0.analysis.diff import diff, to_json
    from day0.cli.progress import header_progress

    if format not in FORMATS:
        raise Day0Error(
            f"--format is {format!r}; it must be one of {', '.join(FORMATS)}",
            hint="day0 diff A B --format json",
        )
    with header_progress(errors()) as progress:
        here, there = (
            analyze(
                name,
                quant=quant,
                require_headers=require_headers,
                plugin=plugin,
                cache_dir=cache_dir,
                progress=progress,
            )
            for name in (a, b)
        )
    found = diff(here, there)
    if format == "json":
        emit_json(to_json(found, here, there), out)
    else:
        emit(_page(found, here.id, there.id), out)
    if strict and not found.identical:
        raise typer.Exit(1)


def _page(found: "Diff", a: str, b: str) -> RenderableType:
    from day0.report.numbers import plain
    from day0.report.plan_nearest import words

    parts: list[RenderableType] = [
        Text(plain(f"{a} against {b}: distance {found.difference.distance:.3f}"), style="bold"),
        Text("what the first has instead of what the second has", style="dim"),
        Text(),
        words(found.difference),
    ]
    if found.difference.equal and not found.same_graph:
        text = "but their graphs differ in something that no feature names: compare --format json"
        parts.append(Text(text, style="yellow"))
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("figure")
    table.add_column("A", justify="right")
    table.add_column("B", justify="right")
    for name, values in found.figures.items():
        cells = ("-" if value is None else f"{value:,}" for value in map(_whole, values))
        table.add_row(name.replace("_", " "), *cells, style="dim" if len(set(values)) == 1 else "")
    parts += [Text(), table]
    for side, operators in (("A", found.only_here), ("B", found.only_there)):
        if operators:
            parts += [Text(), Text(f"operators that only {side} has: {len(operators)}")]
            parts += [Text(f"  {plain(text)}", style="dim") for text in operators[:SHOWN]]
        if len(operators) > SHOWN:
            parts.append(Text(f"  and {len(operators) - SHOWN} more: --format json", style="dim"))
    return Group(*parts)


def _whole(value: float | None) -> float | None:
    return int(value) if isinstance(value, float) and value.is_integer() else value
