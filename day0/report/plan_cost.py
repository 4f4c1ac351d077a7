"""The plan `cost` for a terminal: the roofline of each step."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from day0.analysis.analyze import Analysis
from day0.analysis.roofline import Step, roofline
from day0.report.numbers import count, gib, percent

SHOWN = 0.001  # share of a step below which lines are summed up


def render(analysis: Analysis) -> RenderableType:
    """Per step the families that take a share of it."""
    plan = roofline(analysis.model, analysis.entries, analysis.machine)
    parts: list[RenderableType] = [
        Text(
            f"floor at the data sheet's rates of {plan.machine.gpu.name}: every byte moved once, "
            "no launches, nothing fused",
            style="dim",
        )
    ]
    for step in plan.steps:
        parts += [Text(), Text(title(step, plan.machine.count), style="bold"), _table(step)]
    return Group(*parts)


def title(step: Step, gpus: int) -> str:
    """What the step is and how long it takes at least."""
    what = (
        f"prefill of {step.rows:,} tokens"
        if step.phase == "prefill"
        else f"decode, {step.rows} sequences that hold {step.length:,} tokens"
    )
    shared = f", {step.floor * 1e3:,.3f} ms were it divided evenly over {gpus}" * (gpus > 1)
    return f"{what}: {step.seconds * 1e3:,.3f} ms of one GPU{shared}"


def _table(step: Step) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("family", no_wrap=True)
    for name in ("ops", "flops", "weights", "caches", "values", "ms", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("bound by")
    small = [line for line in step.lines if line.share < SHOWN]
    for line in step.lines:
        if line.share >= SHOWN:
            table.add_row(
                line.family,
                f"{line.count:,}",
                count(line.flops),
                gib(line.weight_bytes),
                gib(line.cache_bytes),
                gib(line.value_bytes),
                f"{line.seconds * 1e3:,.3f}",
                percent(line.share),
                line.bound,
            )
    if small:
        share = sum(line.share for line in small)
        name = f"{len(small)} others"
        ops = sum(line.count for line in small)
        table.add_row(name, f"{ops:,}", *[""] * 5, percent(share), "", style="dim")
    return table
