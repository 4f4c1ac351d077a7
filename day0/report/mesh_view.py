"""`analyze --mesh`: what a rank holds, and what ranks send one another."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from day0.analysis.analyze import Analysis
from day0.analysis.sharded import Sharded
from day0.report.numbers import gib, plain


def render(analysis: Analysis, found: Sharded) -> RenderableType:
    """A line for the mesh, one for what a rank holds, and a table of collectives."""
    held, mesh = found.held, found.mesh
    head = Text(f"{plain(analysis.id)}, recipe {analysis.recipe.name}, ", style="dim")
    head.append(f"mesh {mesh.name}", style="bold")
    head.append(f": {mesh.size} ranks")
    if mesh.ep > 1:
        head.append(f", {mesh.ep} groups of experts, each cut by {mesh.expert_tp}")
    holds = Text(
        f"a rank holds {gib(held.weights)} of weights ({held.weights:,} B, of "
        f"{held.whole_weights:,}), {held.token_bytes:,.0f} B of caches per token "
        f"(of {held.whole_token_bytes:,.0f})"
    )
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for column in ("phase", "collective", "axis", "ranks", "ops", "layers", "B/token",
                   "B/sequence"):  # fmt: skip
        left = column in ("phase", "collective", "axis")
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    for one in found.sent:
        table.add_row(
            one.phase, one.collective, one.axis, str(one.ranks), str(one.ops), str(one.layers),
            f"{one.token_bytes:,.0f}", f"{one.sequence_bytes:,.0f}",
        )  # fmt: skip
    what = Text(
        "bytes that one rank sends, all ops of a line together, per token of the step and per "
        "sequence; rings for sums and gathers, experts taken as chosen evenly",
        style="dim",
    )
    return Group(head, holds, Text(), table, Text(), what)
