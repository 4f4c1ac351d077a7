"""What runs in which format, why, what it risks, and what it saves."""

from collections.abc import Mapping
from typing import Any

from day0.report.parts import Cell, Section, Table, Tiles, size, whole, word
from day0.report.plot_units import tokens

TONES = {"quantise": "good", "requantise": "warn", "dequantise": "warn"}
COLUMNS = ("what", "kind", "used by", "number", "stored", "runs", "computes in", "granularity",
           "scales", "action", "why", "risk", "before", "after")  # fmt: skip


def precision(report: Mapping[str, Any]) -> Section:
    """All decisions of the pass `quantize`, alike ones in one row."""
    plan = report["precision"]
    weights, caches = plan["weight_bytes"], plan["cache_bytes"]
    tiles = [
        ("weights", size(weights["after"]), f"stored as {size(weights['before']).text}"),
        (
            "caches of a sequence",
            size(caches["after"]),
            f"{tokens(plan['cache_tokens'])} tokens, {size(caches['before']).text} before",
        ),
    ]
    tiles += [
        (f"longest context, batch {row['batch']}", _fits(row["after"]),
         f"{_fits(row['before']).text} before")
        for row in plan["longest"]
    ]  # fmt: skip
    rows = tuple(
        (
            word(row["what"], code=True),
            word(row["kind"]),
            word(", ".join(row["families"]), code=True),
            whole(row["count"]),
            word(row["stored"], code=True),
            word(row["runs"], code=True),
            word(row["compute"]),
            word(row["granularity"]),
            word(row["scaling"]),
            word(row["action"], tone=TONES.get(row["action"], "")),
            word(row["why"]),
            word(row["risk"]),
            size(row["before"] or None),
            size(row["after"] or None),
        )
        for row in plan["rows"]
    )
    return Section(
        id="precision",
        title="Precision plan",
        lead=f"Recipe {plan['recipe']}: a format for {plan['decided']:,} of {plan['needed']:,} "
        "weights and caches, as the pass quantize decides. Sums are fp32.",
        parts=(Tiles(items=tuple(tiles)), Table(name="precision", columns=COLUMNS, rows=rows)),
    )


def _fits(count: int) -> Cell:
    return Cell(text=f"{count:,}" if count else "does not fit", value=count)
