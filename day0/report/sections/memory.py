"""What a sequence keeps, and how it grows."""

from collections.abc import Mapping
from typing import Any

from day0.report.numbers import spans
from day0.report.parts import (
    Cell,
    Part,
    Plot,
    Section,
    Series,
    Table,
    Words,
    size,
    whole,
    word,
)
from day0.report.plot_units import tokens
from day0.report.sections.fits import fits

BATCHES = (1, 8, 64)
CACHE_COLUMNS = (
    *("cache", "growth", "format", "layers", "which", "bytes per token", "bytes per sequence"),
)


def caches(report: Mapping[str, Any]) -> Section:
    """Kinds of caches, their growth as numbers and as a plot."""
    parts: list[Part] = []
    if report["caches"]:
        rows = tuple(_cache(row) for row in report["caches"])
        parts.append(Table(name="caches", columns=CACHE_COLUMNS, rows=rows))
    parts.append(_held(report))
    if report["memory"]["growth"]["caches"]:
        parts.append(_growth(report["memory"]["growth"]))
    unknown = sum(e["count"] for e in report["inventory"] if e["family"] == "unknown")
    if unknown:
        text = f"What {unknown} unknown operators keep is not known and not counted."
        parts.append(Words(text=text, tone="warn"))
    return Section(
        id="caches",
        title="Caches",
        lead=f"At bf16 each further token adds {report['kv_bytes_per_token']:,.10g} B of keys, "
        f"values or latents and {report['index_bytes_per_token']:,.10g} B of index keys; a "
        f"sequence keeps {report['state_bytes_per_sequence']:,} B of states and up to "
        f"{report['window_bytes_per_sequence']:,} B of windows. A state that a prefix cache keeps "
        f"copies {report['state_checkpoint']['bytes']:,} B, every "
        f"{report['state_checkpoint']['interval']:,} tokens by default.",
        parts=tuple(parts),
    )


def _growth(growth: Mapping[str, Any]) -> Plot:
    lines = [(line["name"], line["bytes"]) for line in growth["caches"]]
    if len(lines) > 1:
        totals = [sum(column) for column in zip(*(line for _, line in lines), strict=True)]
        lines.insert(0, ("all together", totals))
    return Plot(
        name="growth",
        title="What one sequence keeps, by length",
        series=tuple(
            Series(name=name, points=tuple(zip(growth["tokens"], line, strict=True)))
            for name, line in lines
        ),
        x_unit="tokens",
        y_unit="bytes",
        x_label="tokens",
        y_label="bytes of one sequence",
        log="xy",
    )


def memory(report: Mapping[str, Any]) -> Section:
    """Weights as they are stored, and the caches of some batches beside them."""
    weights = report["bytes"]["checkpoint"]
    growth = report["memory"]["growth"]
    lengths = growth["tokens"]
    held = [sum(line["bytes"][at] for line in growth["caches"]) for at in range(len(lengths))]
    rows = tuple(
        (
            Cell(text=tokens(row["tokens"]), value=row["tokens"]),
            *(size(batch * row["bytes"]) for batch in BATCHES),
            *(size(weights + batch * row["bytes"]) for batch in BATCHES[1:]),
        )
        for row in report["memory"]["sequence"]
    )
    columns = (
        "tokens a sequence",
        *(f"caches, batch {batch}" for batch in BATCHES),
        *(f"with weights, batch {batch}" for batch in BATCHES[1:]),
    )
    plot = Plot(
        name="memory",
        title="Weights and caches, by length and batch",
        series=tuple(
            Series(
                name=f"batch {batch}",
                points=tuple(
                    (at, weights + batch * one) for at, one in zip(lengths, held, strict=True)
                ),
            )
            for batch in BATCHES
        ),
        x_unit="tokens",
        y_unit="bytes",
        x_label="tokens of each sequence",
        y_label="bytes",
        marks=(("weights alone", weights),),
    )
    return Section(
        id="memory",
        title="Memory",
        lead=f"Weights as stored: {weights:,} B. Caches under recipe {report['recipe']}. "
        "Activations and workspace come on top.",
        parts=(Table(name="memory", columns=columns, rows=rows), plot, *fits(report)),
    )


def _cache(row: Mapping[str, Any]) -> tuple[Any, ...]:
    number = len(row["layers"])
    growth, per_token = row["growth"], row["bytes_per_token"]
    if growth == "pooled":
        growth = f"pooled by {row['pool']}"
        per_token = row["bytes_per_pool"] / row["pool"]
    elif growth == "window":
        growth = f"window of {row['window_tokens']}"
    return (
        word(row["name"], code=True),
        word(growth),
        word(row["format"]),
        whole(number),
        word(spans(row["layers"])),
        whole(per_token * number),
        whole(row["bytes_per_sequence"] * number),
    )


def _held(report: Mapping[str, Any]) -> Table:
    """Bytes of one sequence at some lengths, and what equal pages would reserve."""
    rows = tuple(
        (word(tokens(row["tokens"])), size(row["bytes"]), whole(row["bytes"]),
         size(row["equal_pages_bytes"]))
        for row in report["memory"]["sequence"]
    )  # fmt: skip
    return Table(
        name="held",
        columns=("tokens", "one sequence holds", "in bytes", "an engine with equal pages reserves"),
        rows=rows,
        caption=f"One sequence under recipe {report['recipe']}",
    )
