"""What a step costs, and in which formats the checkpoint is stored."""

from collections.abc import Mapping
from typing import Any

from day0.report.parts import Note, Notes, Part, Section, Table, amount, share, size, whole, word
from day0.report.sections.roofline import roofline

FOLD = 12  # entries; longer lists are shown closed
PHASES = {
    "prefill_4k": "prefill of 4K tokens, per token",
    "decode_4k": "decode at 4K tokens",
    "decode_128k": "decode at 128K tokens",
}


def cost(report: Mapping[str, Any]) -> Section:
    """Flops and bytes per token of the whole trunk in each context."""
    rows = tuple(
        (
            word(PHASES.get(name, name)),
            amount(found["flops_per_token"]),
            size(found["weight_bytes_per_token"]),
            size(found["cache_bytes_per_token"]),
            whole(round(found["flops_per_token"] / _bytes(found), 1) if _bytes(found) else None),
        )
        for name, found in report["cost"].items()
        if name != "roofline"
    )
    columns = ("step", "flops", "bytes of weights", "bytes of caches", "flops per byte")
    return Section(
        id="cost",
        title="Cost",
        lead="Batch 1: the weights are read once for each decode step and shared by its sequences, "
        "the caches are read for each. Values between operators are not counted.",
        parts=(Table(name="cost", columns=columns, rows=rows), *roofline(report)),
    )


def stored(report: Mapping[str, Any]) -> Section:
    """What the checkpoint is quantised to, and where its own words disagree."""
    quant = report["quant"]
    rows = tuple(
        (
            word(row["format"], code=True),
            whole(row["weights"]),
            amount(row["params"]),
            size(row["bytes"]),
            share(row["bytes"] / total if (total := _stored(quant)) else None),
        )
        for row in quant["stored"]
    )
    parts: list[Part] = [
        Table(name="stored", columns=("format", "tensors", "params", "bytes", "share"), rows=rows)
    ]
    parts += _lists(quant)
    if quant["conflicts"]:
        notes = (Note(severity="warning", message=words) for words in quant["conflicts"])
        parts.append(Notes(items=tuple(notes)))
    source = quant["source"] or "no quantisation record"
    return Section(
        id="stored",
        title="Stored formats",
        lead=f"{quant['coverage']:.1f} % of the parameters are quantised; {source}.",
        parts=tuple(parts),
    )


def _lists(quant: Mapping[str, Any]) -> list[Part]:
    """What the entries of the exclusion lists name, and how the GPU takes the formats."""
    parts: list[Part] = []
    if quant.get("exclusions"):
        parts.append(
            Table(
                name="exclusions",
                columns=("excluded", "entries", "tensors", "params", "stored quantised"),
                rows=tuple(
                    (
                        word(row["entry"], code=True),
                        whole(row["entries"]),
                        whole(row["weights"]),
                        amount(row["params"]),
                        whole(row["quantised"]),
                    )
                    for row in quant["exclusions"]
                ),
                caption=f"Entries of the exclusion lists ({len(quant['exclusions'])} kinds)",
                folded=len(quant["exclusions"]) > FOLD,
            )
        )
    if quant.get("hardware"):
        parts.append(
            Table(
                name="hardware",
                columns=("format", "GPU", "matrix units", "how"),
                rows=tuple(
                    (
                        word(row["format"], code=True),
                        word(row["gpu"]),
                        word(row["units"], tone="good" if row["native"] else "warn"),
                        word(row["words"]),
                    )
                    for row in quant["hardware"]
                ),
            )
        )
    return parts


def _bytes(found: Mapping[str, float]) -> float:
    return found["weight_bytes_per_token"] + found["cache_bytes_per_token"]


def _stored(quant: Mapping[str, Any]) -> int:
    return sum(row["bytes"] for row in quant["stored"])
