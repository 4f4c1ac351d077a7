"""`analyze --passes`: what every pass matched, by phase."""

from collections import Counter

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from day0.analysis.analyze import Analysis
from day0.analysis.lowering import lowered_for, passes
from day0.report.plan_schedule import short

SHOWN = 4  # kinds of matches; the JSON has every id


def render(analysis: Analysis) -> RenderableType:
    """One row a pass: how many ops in prefill and in decode, and the commonest kinds."""
    rows = passes(lowered_for(analysis.model, analysis.recipe, analysis.machine.gpu.capability))
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("pass", no_wrap=True)
    for phase in ("prefill", "decode"):
        table.add_column(phase, justify="right", no_wrap=True)
    table.add_column("matched")
    for name in dict.fromkeys(row["pass"] for row in rows):
        mine = {row["phase"]: row for row in rows if row["pass"] == name}
        kinds = Counter(short(op) for op in mine["decode"]["ops"] or mine["prefill"]["ops"])
        words = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(SHOWN))
        more = f" and {len(kinds) - SHOWN} more kinds" if len(kinds) > SHOWN else ""
        table.add_row(
            name,
            str(mine["prefill"]["count"]),
            str(mine["decode"]["count"]),
            Text(words + more or "nothing", style="dim"),
        )
    what = (
        "layout, narrow, two_phase, fuse, quantise_rows: ops changed or made; quantize: weights "
        "and caches that run in another format than stored; choose: ops that no kernel takes; "
        "streams: ops of lane 1"
    )
    return Group(table, Text(what, style="dim"))
