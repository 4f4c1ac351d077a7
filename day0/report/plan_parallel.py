"""The plan `parallel` for a terminal: what fits, what is recommended, what is illegal and why."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from day0.analysis.analyze import Analysis
from day0.analysis.parallel.plan import Choice, ParallelPlan, plan_of
from day0.report.numbers import gib, plain

SHOWN = 12
REASONS = 4


def render(analysis: Analysis) -> RenderableType:
    """The plan of an analysed model."""
    plan = plan_of(analysis)
    return Group(_head(plan), Text(), _meshes(plan), Text(), _why_not(plan), Text(), _rest(plan))


def _head(plan: ParallelPlan) -> Text:
    text = Text(f"checkpoint {plan.checkpoint_bytes / 1e12:,.3f} TB as stored: ")
    count = plan.machine.count
    if plan.one_holds:
        text.append("one GPU has room for it")
    elif plan.all_hold:
        text.append(f"{count} GPUs have room for it, one has not")
    else:
        text.append(f"neither one GPU nor {count} have room for it", style="red")
    if plan.latency:
        text.append("\nfor latency ")
        text.append(plan.latency, style="bold green")
        text.append(", for throughput ")
        text.append(plan.throughput, style="bold green")
    elif not plan.fits:
        more = f"{plan.needed} of them have room" if plan.needed else "nor do 1,024"
        text.append(f"\nno legal split fits; {more}", style="red")
    if plan.unknown:
        told = f"nothing is recommended: what {plan.unknown} unknown operators need is not counted"
        text.append(f"\n{told}", style="yellow")
    for degrees in plan.degrees:
        text.append(f"\nlegal TP, {degrees.formats}: {', '.join(map(str, degrees.legal))}")
    return text


def _meshes(plan: ParallelPlan) -> RenderableType:
    fitting = sorted((one for one in plan.choices if one.times), key=_speed)
    rest = sorted((one for one in plan.choices if not one.times), key=lambda c: c.memory.total)
    chosen = [one for one in fitting if one.mesh.name in (plan.latency, plan.throughput)]
    shown = [*chosen, *(one for one in (*fitting, *rest) if one not in chosen)][:SHOWN]
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for column in ("mesh", "a rank holds", "weights", "caches", "sequences", "sent/layer",
                   "TTFT", "TPOT", "tokens/s"):  # fmt: skip
        table.add_column(column, justify="left" if column == "mesh" else "right", no_wrap=True)
    for one in shown:
        table.add_row(*_cells(one, plan))
    left = len(plan.choices) - len(shown)
    if not left:
        return table
    return Group(table, Text(f"and {left} more legal splits (--format json)", style="dim"))


def _speed(choice: Choice) -> float:
    assert choice.times
    return -choice.times.tokens_per_second


def _cells(choice: Choice, plan: ParallelPlan) -> tuple[Text, ...]:
    best = choice.mesh.name in (plan.latency, plan.throughput)
    times = choice.times
    name = choice.mesh.name + (f" x{choice.mesh.replicas}" if choice.mesh.replicas > 1 else "")
    words = [
        gib(choice.memory.weights),
        gib(choice.memory.caches),
        f"{choice.sequences:,}",
        gib(choice.prefill.per_layer),
        f"{1e3 * times.ttft:,.3g} ms" if times else "-",
        f"{1e3 * times.tpot:,.3g} ms" if times else "-",
        f"{times.tokens_per_second:,.0f}" if times else "-",
    ]
    total = Text(gib(choice.memory.total), style="" if choice.fits else "red")
    return (Text(name, style="green" if best else ""), total, *map(Text, words))


def _why_not(plan: ParallelPlan) -> Text:
    if not plan.illegal:
        return Text("every split of these GPUs is legal", style="dim")
    text = Text("illegal:")
    for group in plan.illegal:
        names = ", ".join(group.meshes[:6]) + (" ..." if group.meshes[6:] else "")
        text.append(f"\n{names}", style="yellow")
        for reason in group.reasons[:REASONS]:
            text.append(f"\n  {plain(reason)}")
        if group.reasons[REASONS:]:
            text.append(f"\n  and {len(group.reasons) - REASONS} more reasons", style="dim")
    return text


def _rest(plan: ParallelPlan) -> Text:
    text = Text("context split, busiest rank over the mean:")
    for row in plan.sequence.balance:
        text.append(
            f"\n  {row.ranks} ranks: contiguous {row.contiguous:.2f}, zigzag {row.zigzag:.2f}, "
            f"interleaved {row.interleaved:.2f}"
        )
    for row in plan.sequence.passing:
        text.append(
            f"\n  {row.layers} {row.family} layers on {row.ranks} ranks: states "
            f"{gib(row.state_bytes)} a layer; less than moving rows from {row.break_even:,} tokens"
        )
    lost = list(dict.fromkeys(told for one in plan.choices for told in one.fallback))
    for told in lost[:REASONS]:
        text.append(f"\nloses its kernel by a split: {plain(told)}", style="yellow")
    assumed = plan.assumed
    text.append(
        f"\nfloors at {assumed.matrix:.0%} of the matrix rate and {assumed.bandwidth:.0%} of the "
        f"bandwidth; prompts of {assumed.prompt:,}, {assumed.context:,} tokens held, "
        f"{assumed.output} produced; nothing was measured",
        style="dim",
    )
    return text
