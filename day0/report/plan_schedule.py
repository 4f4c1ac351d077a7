"""The plan `schedule` for a terminal: what runs beside what, is captured, is compiled first."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from day0.analysis.analyze import Analysis
from day0.analysis.lowering import lowered_for
from day0.analysis.schedule import Block, Phase, Schedule, schedule
from day0.report.numbers import plain, spans


def render(analysis: Analysis) -> RenderableType:
    """Phases, their blocks and groups, then the warm-up list."""
    lowered = lowered_for(analysis.model, analysis.recipe, analysis.machine.gpu.capability)
    plan = schedule(analysis.model, analysis.recipe, lowered)
    parts: list[RenderableType] = []
    for phase in plan.phases:
        parts += [_said(phase), _blocks(phase), *_groups(phase), Text()]
    parts.append(_warm_up(plan))
    hidden = ", ".join(plan.communication) or "none: one card sends nothing"
    return Group(*parts, Text(f"communication that can overlap: {hidden}"))


def _said(phase: Phase) -> Text:
    text = Text(phase.phase, style="bold")
    text.append(
        f": {phase.num_lanes} lanes, {phase.num_waits} waits, {phase.launches:,} launches; "
        f"predicted {_us(phase.serial_s)} one after another, {_us(phase.scheduled_s)} in lanes, "
        f"longest chain {_us(phase.critical_s)}",
        style="default",
    )
    graph = "the whole step is captured" if phase.captured else "not captured"
    text.append(f"\nCUDA graph: {graph}", style="green" if phase.captured else "yellow")
    for reason in phase.because:
        text.append(f"\n  {plain(reason)}", style="dim")
    return text


def _blocks(phase: Phase) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("block", no_wrap=True)
    table.add_column("layers")
    for name in ("ops", "launches", "serial", "in lanes", "chain"):
        table.add_column(name, justify="right", no_wrap=True)
    for block in phase.blocks:
        times = (block.serial_s, block.scheduled_s, block.critical_s)
        table.add_row(
            block.name,
            spans(block.layers),
            str(block.num_ops),
            str(block.launches),
            *map(_us, times),
        )
    return table


def _groups(phase: Phase) -> Iterator[RenderableType]:
    """What stands side by side, once for each block that does it otherwise."""
    shown: set[object] = set()
    for block in phase.blocks:
        lines = [_lanes(block, group.lanes) for group in block.groups]
        key = tuple(lines)
        if not lines or key in shown:
            continue
        shown.add(key)
        text = Text(f"side by side in {block.name} {spans(block.layers)}:", style="dim")
        for group, line in zip(block.groups, lines, strict=True):
            times = f"{_us(group.serial_s)} -> {_us(group.scheduled_s)}"
            text.append(f"\n  {line}   {times}", style="default")
        yield text


def _lanes(block: Block, lanes: tuple[tuple[str, ...], ...]) -> str:
    return "  |  ".join(", ".join(short(name) for name in lane) for lane in lanes)


def short(name: str) -> str:
    """An op's id without its layer; of what was merged or fused the first and the last part."""
    parts = [part.split(".", 2)[-1] if part.startswith("layers.") else part
             for part in name.split("+")]  # fmt: skip
    return plain(parts[0] if len(parts) == 1 else f"{parts[0]}..{parts[-1]}")


def _warm_up(plan: Schedule) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("compiled by --prepare", no_wrap=True)
    table.add_column("phase", no_wrap=True)
    table.add_column("ops", justify="right", no_wrap=True)
    table.add_column("kernel and sizes")
    for one in plan.warm_up:
        sizes = Text(f"{one.entry.rpartition(':')[2]}: {one.sizes}", overflow="ellipsis",
                     no_wrap=True, style="dim")  # fmt: skip
        table.add_row(one.family, one.phase, str(len(one.ops)), sizes)
    return Group(
        table,
        Text("decode at " + ", ".join(map(str, plan.decode_sizes)) + " sequences", style="dim"),
        Text("prefill at " + ", ".join(map(str, plan.prefill_rows)) + " rows", style="dim"),
    )


def _us(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:,.1f} us"
