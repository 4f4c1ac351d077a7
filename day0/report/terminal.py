"""Analysis -> what a person wants to read in a terminal."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from day0.analysis import caches
from day0.analysis.analyze import Analysis
from day0.analysis.inventory import Entry
from day0.analysis.layers import layer_view
from day0.report.numbers import count, gib, percent, plain, spans

VERDICT_STYLE = {"reuse": "green", "quant-rework": "yellow", "new": "red"}
SEVERITY_STYLE = {"error": "bold red", "warning": "yellow", "info": "dim"}
PROOF_STYLE = {"proved": "green", "no-headers": "dim", "incomplete": "yellow",
               "contradicted": "bold red"}  # fmt: skip


def render(analysis: Analysis) -> RenderableType:
    """The whole report."""
    return Group(*_sections(analysis))


def _sections(analysis: Analysis) -> Iterator[RenderableType]:
    yield _head(analysis)
    yield from _titled("Layers", _layers(analysis))
    yield from _titled("Caches (one sequence, recipe " + analysis.recipe.name + ")",
                       _caches(analysis))  # fmt: skip
    yield from _titled(_inventory_title(analysis), _inventory(analysis))
    yield from _titled("Proof", _proof(analysis))
    yield from _titled("Semantics", _semantics(analysis))
    if analysis.findings:
        yield from _titled("Findings", _findings(analysis))


def _titled(title: str, body: RenderableType) -> Iterator[RenderableType]:
    yield Text()
    yield Text(title, style="bold")
    yield Padding(body, (0, 0, 0, 2))


def _head(analysis: Analysis) -> RenderableType:
    spec, total = analysis.spec, analysis.params
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    words = [analysis.id]
    if analysis.revision:
        words.append(f"at {analysis.revision[:12]}")
    table.add_row("model", Text(plain(" ".join(words)), style="bold"))
    kind = spec.model_type or "no model_type"
    table.add_row("type", f"{plain(kind)}   {plain(', '.join(spec.architectures))}")
    detail = [f"trunk {count(total.trunk)}"]
    if total.drafts:
        detail.append(f"drafts {count(total.drafts)}")
    if total.opaque:
        detail.append(f"not executed {count(total.opaque)}")
    table.add_row(
        "parameters",
        f"{total.total:,} ({', '.join(detail)}); active per token {count(total.active)}",
    )
    if bare := _unknown(analysis.entries, bare=True):
        held = f"not counted, here and below: what {bare} unknown operators hold and do"
        table.add_row("", Text(held, style="yellow"))
    size = gib(analysis.bytes.checkpoint)
    how = "stored" if analysis.headers is not None else f"by format, as {spec.dtype}"
    if analysis.headers is None and analysis.quant.coverage:
        how = f"by format, as {analysis.quant_source} promises"
    table.add_row("bytes", f"{analysis.bytes.checkpoint:,} ({size}, {how})")
    context = "not stated" if spec.context_length is None else f"{spec.context_length:,} tokens"
    table.add_row("context", context)
    if analysis.mtp.declared or analysis.mtp.shipped:
        table.add_row("drafts", _drafts(analysis))
    return table


def _drafts(analysis: Analysis) -> str:
    """What the checkpoint ships for speculation against what its config declares."""
    mtp, able = analysis.mtp, len(analysis.model.graphs) - 1
    held = caches.version_bytes(analysis.model, analysis.recipe)
    shipped = "no files to look at" if analysis.headers is None else f"{mtp.shipped} shipped"
    return (
        f"MTP layers: {mtp.declared} declared, {shipped}, {able} executable; each token of a draft "
        f"holds {gib(held)} of state a sequence"
    )


def _unknown(entries: Iterable[Entry], *, bare: bool = False) -> int:
    """Operators nobody knows; `bare`: those alone of which not even a weight is known."""
    return sum(
        entry.count
        for entry in entries
        if entry.family == "unknown" and not (bare and entry.shapes.weights)
    )


def _layers(analysis: Analysis) -> RenderableType:
    """A strip: runs of equal layers, and one row for each kind."""
    views = [
        layer_view(i, layer, analysis.spec.residual.stem)
        for i, layer in enumerate(analysis.spec.layers)
    ]
    kinds: dict[tuple[str, str], list[int]] = defaultdict(list)
    for view in views:
        kinds[view["mixer"], view["ffn"]].append(view["index"])
    letters = {kind: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i % 26] for i, kind in enumerate(kinds)}
    strip = "".join(letters[view["mixer"], view["ffn"]] for view in views)
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for name in ("", "mixer", "ffn"):
        table.add_column(name)
    table.add_column("layers", justify="right")
    table.add_column("which")
    for kind, numbers in kinds.items():
        table.add_row(letters[kind], kind[0], kind[1], str(len(numbers)), spans(numbers))
    residual = Text(f"residual {analysis.spec.residual.stem}", style="dim")
    return Group(Text(strip), residual, table)


def _caches(analysis: Analysis) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("cache")
    table.add_column("growth")
    table.add_column("format")
    table.add_column("layers", justify="right")
    table.add_column("B per token", justify="right")
    table.add_column("B per sequence", justify="right")
    for row in caches.rows(analysis.model, analysis.recipe):
        growth = row["growth"]
        per_token: float = row["bytes_per_token"]
        if growth == "pooled":
            growth = f"pooled by {row['pool']}"
            per_token = row["bytes_per_pool"] / row["pool"]
        elif growth == "window":
            growth = f"window of {row['window_tokens']}"
        number = len(row["layers"])
        table.add_row(
            row["name"],
            growth,
            row["format"],
            str(number),
            f"{per_token * number:,.0f}" if per_token else "-",
            f"{row['bytes_per_sequence'] * number:,}" if row["bytes_per_sequence"] else "-",
        )
    totals = analysis.cache_totals
    curve = caches.curve(analysis.model, analysis.recipe)
    line = (
        f"at bf16: {totals.kv_bytes_per_token:,} B per token, index keys "
        f"{totals.index_bytes_per_token:,} B per token, states "
        f"{gib(totals.state_bytes_per_sequence)} per sequence"
    )
    kept = caches.checkpoint(totals)
    again = (
        f"a state to go on from (--prefix-cache) copies {gib(kept['bytes'])}; one every "
        f"{kept['interval']:,} tokens makes {kept['bytes_per_token']:,.0f} B a token"
    )
    lines = [
        Text(line),
        Text(again, style="dim"),
        Text("one sequence holds: " + _at_lengths(curve, "bytes"), style="dim"),
    ]
    if any(row["bytes"] != row["equal_pages_bytes"] for row in curve):
        paged = _at_lengths(curve, "equal_pages_bytes")
        lines.append(Text(f"an engine with equal pages reserves: {paged}", style="dim"))
    if unknown := _unknown(analysis.entries):
        lines.append(Text(f"not counted: what {unknown} unknown operators keep", style="yellow"))
    return Group(table, *lines)


def _at_lengths(curve: list[dict[str, int]], key: str) -> str:
    return "   ".join(f"{row['tokens'] // 1024}K tokens {gib(row[key])}" for row in curve)


def _inventory_title(analysis: Analysis) -> str:
    new = analysis.new_fraction
    return (
        f"Operators: {len(analysis.entries)} distinct, new {percent(new.ops)} of them, "
        f"{percent(new.params)} of parameters, {percent(new.flops)} of flops, "
        f"{percent(new.bytes)} of bytes (decode at 4K)"
    )


def _inventory(analysis: Analysis) -> RenderableType:
    """One row for each family and verdict; the JSON has every distinct operator."""
    rows: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in analysis.entries:
        rows[entry.verdict.status, entry.family].append(entry)
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    # In a narrow terminal "why" gives way; a number is never cut.
    for name in ("verdict", "family"):
        table.add_column(name, no_wrap=True)
    for name in ("ops", "kinds", "params", "flops/token", "bytes/token"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why")
    for (status, family), entries in rows.items():
        first = entries[0].verdict
        why = first.impl if status == "reuse" else "; ".join(first.reasons[:2])
        table.add_row(
            Text(status, style=VERDICT_STYLE[status]),
            family,
            str(sum(entry.count for entry in entries)),
            str(len(entries)),
            count(sum(entry.params for entry in entries)),
            count(sum(entry.decode.flops for entry in entries)),
            gib(sum(entry.decode.bytes for entry in entries)),
            Text(plain(why), style="dim", overflow="ellipsis", no_wrap=True),
        )
    return table


def _proof(analysis: Analysis) -> RenderableType:
    proof = analysis.proof
    text = Text()
    text.append(proof.status, style=PROOF_STYLE[proof.status])
    if proof.status == "no-headers":
        text.append(f": no safetensors headers; {proof.expected:,} tensors expected")
        return text
    text.append(f": {proof.matched:,} of {proof.expected:,} expected tensors match")
    text.append(f", {len(proof.unexpected):,} unexpected, {len(proof.shape)} of another shape")
    text.append(f"; unexplained {gib(proof.unexplained_bytes)}")
    for group in analysis.model.groups:
        text.append(
            f"\nnot executed: {plain(group.name)} ({group.role}), {len(group.tensors):,} tensors, "
            f"{gib(group.bytes)}",
            style="dim",
        )
    return text


def _semantics(analysis: Analysis) -> RenderableType:
    hows: dict[str, int] = defaultdict(int)
    for fact in analysis.model.facts.values():
        hows[fact.how] += 1
    order = ("stated", "config", "header", "known", "default", "assumed")
    parts = ", ".join(f"{hows[how]} {how}" for how in order if hows[how])
    text = Text(f"{len(analysis.model.facts)} facts: {parts}")
    for fact in analysis.assumed:
        style = "yellow" if fact.decisive else "dim"
        text.append(f"\nassumed {plain(fact.path)} = {fact.value!r}", style=style)
    return text


def _findings(analysis: Analysis) -> RenderableType:
    order = {"error": 0, "warning": 1, "info": 2}
    text = Text()
    for number, finding in enumerate(
        sorted(analysis.findings, key=lambda finding: order[finding.severity])
    ):
        text.append("\n" if number else "")
        text.append(f"{finding.severity:8}", style=SEVERITY_STYLE[finding.severity])
        text.append(f"{plain(finding.message)} [{finding.code}]")
        for item in finding.evidence[:8]:
            text.append(f"\n          {plain(item)}", style="dim")
        if len(finding.evidence) > 8:
            text.append(f"\n          and {len(finding.evidence) - 8} more", style="dim")
    return text
