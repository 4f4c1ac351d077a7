"""The plan `nearest` for a terminal: the nearest known models, and the first one's differences."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from day0.analysis.analyze import Analysis
from day0.analysis.compare import Difference
from day0.analysis.nearest import nearest
from day0.report.numbers import plain

SHOWN = 6


def render(analysis: Analysis) -> RenderableType:
    """Distances of a few, then what is other than in the nearest."""
    neighbours = nearest(analysis.spec, id=analysis.id).neighbours
    if not neighbours:
        return Text("the catalog is empty")
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("distance", justify="right", no_wrap=True)
    table.add_column("known model", no_wrap=True)
    table.add_column("first differences")
    for one in neighbours[:SHOWN]:
        said = "; ".join(one.difference.meaning[:3]) or "none in meaning"
        said = "identical" if one.difference.equal else said
        table.add_row(
            f"{one.difference.distance:.3f}",
            plain(one.name),
            Text(plain(said), overflow="ellipsis", no_wrap=True),
        )
    first = neighbours[0]
    return Group(table, Text(), Text(f"against {plain(first.name)}:"), words(first.difference))


def words(difference: Difference) -> Text:
    """All that differs, one thing a line."""
    if difference.equal:
        return Text("identical: the same mechanisms with the same attributes")
    text = Text()
    for kind in ("meaning", "constants", "sizes", "stored"):
        for item in getattr(difference, kind):
            text.append(f"{kind:10}", style="yellow" if kind == "meaning" else "dim")
            text.append(f"{plain(item)}\n")
    text.rstrip()
    return text
