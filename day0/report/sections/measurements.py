"""Speed and memory, each figure beside its prediction and the hardware's floor."""

from collections.abc import Mapping
from typing import Any

from day0.report.parts import (
    Cell,
    Note,
    Notes,
    Pairs,
    Part,
    Plot,
    Section,
    Series,
    Table,
    Tiles,
    Words,
    amount,
    share,
    size,
    whole,
    word,
)


def verdict(report: Mapping[str, Any]) -> Section:
    """What fails, and the few figures a reader looks for first."""
    found, metrics = report["verdict"], {row["name"]: row for row in report["metrics"]}
    cells = report["cells"]
    passed = sum(cell["status"] == "pass" for cell in cells)
    skipped = [cell["id"] for cell in cells if cell["status"] == "skip"]
    bad = found["status"] == "fail"
    items: list[tuple[str, Cell, str]] = [
        ("Verdict", word(found["status"], tone="bad" if bad else "good"), _failing(found))
    ]
    if cells:
        remark = f"not looked at: {', '.join(skipped)}" if skipped else "all looked at"
        items.append(("Cells that pass", word(f"{passed} of {len(cells)}"), remark))
    for name, label in (
        ("warm_ttft_ms", "TTFT, warm"),
        ("tpot_ms", "TPOT"),
        ("output_throughput", "Output throughput, best"),
    ):
        if (row := metrics.get(name)) and row["value"] is not None:
            items.append((label, word(f"{row['value']:,.4g} {row['unit']}"), row["how"]))
    parts: list[Part] = [Tiles(items=tuple(items))]
    if report["notes"]:
        notes = (Note(severity="info", message=note) for note in report["notes"])
        parts.append(Notes(items=tuple(notes)))
    return Section(id="verdict", title="Verdict", parts=tuple(parts))


def grid(report: Mapping[str, Any]) -> Section:
    """Every grid point, throughput against latency, TTFT against length."""
    names = ("median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "p99_tpot_ms", "p99_itl_ms",
             "output_throughput", "total_token_throughput")  # fmt: skip
    rows = tuple(
        (
            whole(row["batch"]),
            whole(row["input"]),
            whole(row["output"]),
            *(_figure(row["figures"][name]) for name in names),
            share(max((value for value in row["spreads"].values() if value), default=0.0)),
            whole(row["failed"], tone="bad" if row["failed"] else ""),
        )
        for row in report["grid"]
    )
    columns = ("batch", "input", "output", *names, "widest spread", "failed")
    return Section(
        id="speed",
        title="Speed",
        lead=f"Medians of {report['repeats']} runs after a warm-up, load {report['load']}; "
        "every run has prompts of its own.",
        parts=(Table(name="grid", columns=columns, rows=rows), *_plots(report["grid"])),
    )


def memory(report: Mapping[str, Any]) -> Section:
    """Predicted by what it is for, measured over the tokens held."""
    rows = tuple((name, size(value)) for name, value in report["memory"].items())
    held = sorted(
        (row["batch"] * (row["input"] + row["output"]), row["peak_memory_bytes"])
        for row in report["grid"]
        if row["peak_memory_bytes"]
    )
    parts: list[Part] = [Pairs(rows=(*rows, ("predicted", size(sum(report["memory"].values())))))]
    if held:
        points = tuple((float(x), float(y)) for x, y in dict(held).items())
        parts.append(
            Plot(
                name="memory",
                title="Peak memory over tokens held by all sequences",
                series=(Series(name="peak", points=points),),
                x_unit="tokens", y_unit="bytes", x_label="tokens held", y_label="peak",
            )
        )  # fmt: skip
    lead = "Weights in the formats they run in, caches as they are made, values of the widest step."
    return Section(id="memory", title="Memory", lead=lead, parts=tuple(parts))


def floors(report: Mapping[str, Any]) -> Section:
    """Where the floor of a decode step goes, by family."""
    rows = tuple(
        (
            word(row["family"]),
            amount(row["flops"]),
            size(row["bytes"]),
            whole(row["floor_ms"]),
            share(row["share"]),
        )
        for row in report["floor_by_family"]
    )
    return Section(
        id="floors",
        title="Floor by operator",
        lead="A decode step of the first grid point at the device's full bandwidth and rate.",
        parts=(
            Table(name="floors", columns=("family", "flops", "bytes", "ms", "share"), rows=rows),
        ),
    )


def figures(report: Mapping[str, Any]) -> Section:
    """Every metric with bound, prediction and floor, and the formulas."""
    rows = tuple(
        (
            word(row["name"], code=True, tone="bad" if row["broken"] else ""),
            _figure(row["value"]),
            word(row["unit"]),
            share(row["spread"]),
            _figure(row["bound"]),
            _figure(row["predicted"]),
            share(row["prediction_error"]),
            _figure(row["floor"]),
            share(row["share_of_floor"]),
            word(row["how"]),
        )
        for row in report["metrics"]
    )
    columns = ("metric", "value", "unit", "spread", "bound", "predicted", "error", "floor",
               "share of floor", "how")  # fmt: skip
    formulas = tuple((name, word(text)) for name, text in report["formulas"].items())
    return Section(
        id="figures",
        title="Figures",
        parts=(
            Table(name="figures", columns=columns, rows=rows),
            Words(text="Formulas, as vllm bench serve has them:"),
            Pairs(rows=formulas),
        ),
    )


def baseline(report: Mapping[str, Any]) -> Section:
    """What changed since an earlier report; regressions first."""
    found = sorted(report["baseline"], key=lambda row: not row["regression"])
    rows = tuple(
        (
            word("worse" if row["regression"] else "", tone="bad" if row["regression"] else ""),
            word(row["name"], code=True),
            _either(row["before"]),
            _either(row["now"]),
            share(row["change"]),
        )
        for row in found
    )
    columns = ("", "figure", "before", "now", "change")
    return Section(
        id="baseline",
        title="Against the baseline",
        lead="Worse by more than a tenth and by more than the repeats spread is a regression.",
        parts=(Table(name="baseline", columns=columns, rows=rows),),
    )


def environment(report: Mapping[str, Any]) -> Section:
    """Where the report was made and how to make it again."""
    found = report["environment"]
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    rows = [
        ("command", word(report["command"], code=True)),
        ("seed", word(report["seed"])),
        ("date", word(found["date"])),
        ("device", word(found["device_name"])),
        ("versions", word(versions)),
        ("cuda", word(found["cuda"])),
        ("system", word(found["system"])),
        ("threads", word(found["threads"])),
        *((name, word(value)) for name, value in found["gpu"].items()),
    ]
    table = Table(
        name="implementations",
        columns=("family", "implementation", "ops of a decode step"),
        rows=tuple(
            (word(row["family"]), word(row["impl"]), whole(row["count"]))
            for row in report["implementations"]
        ),
        caption="What ran",
        folded=True,
    )
    parts: tuple[Part, ...] = (Pairs(rows=tuple(rows)),)
    return Section(
        id="environment",
        title="Environment",
        parts=(*parts, table) if report["implementations"] else parts,
    )


def _plots(rows: list[Mapping[str, Any]]) -> list[Plot]:
    """Throughput against latency, a line for each length over its batches; TTFT against length, a
    line for each batch. A line of one point is none."""
    latency: dict[str, list[tuple[float, float]]] = {}
    first: dict[str, dict[float, float]] = {}
    for row in rows:
        figures = row["figures"]
        if figures["median_tpot_ms"] is not None and figures["output_throughput"] is not None:
            key = f"input {row['input']}, output {row['output']}"
            point = figures["median_tpot_ms"], figures["output_throughput"]
            latency.setdefault(key, []).append(point)
        if figures["median_ttft_ms"] is not None:
            found = first.setdefault(f"batch {row['batch']}", {})
            found[float(row["input"])] = figures["median_ttft_ms"]
    plots = []
    if any(len(points) > 1 for points in latency.values()):
        plots.append(
            Plot(
                name="latency",
                title="Throughput against time per token, over the batch",
                series=_series({name: dict(points) for name, points in latency.items()}),
                x_unit="ms", y_unit="", x_label="TPOT", y_label="output tokens/s", log="",
            )
        )  # fmt: skip
    if any(len(points) > 1 for points in first.values()):
        plots.append(
            Plot(
                name="ttft",
                title="Time to the first token against the prompt's length",
                series=_series(first),
                x_unit="tokens", y_unit="ms", x_label="input tokens", y_label="TTFT",
            )
        )  # fmt: skip
    return plots


def _series(lines: Mapping[str, Mapping[float, float]]) -> tuple[Series, ...]:
    return tuple(
        Series(name=name, points=tuple(sorted(points.items()))) for name, points in lines.items()
    )


def _failing(found: Mapping[str, Any]) -> str:
    kinds = [kind for kind in ("cells", "lengths", "bounds") if found[kind]]
    named = [f"{kind}: {', '.join(map(str, found[kind]))}" for kind in kinds]
    return "; ".join(named) or "no cell, length or bound fails"


def _figure(value: float | None) -> Cell:
    return Cell(text="-") if value is None else Cell(text=f"{value:,.4g}", value=value)


def _either(value: Any) -> Cell:
    return word(value) if isinstance(value, str) else _figure(value)
