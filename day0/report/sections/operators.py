"""Every distinct operator with its verdict."""

from collections.abc import Mapping
from typing import Any

from day0.report.dataflow import VERDICT_TONE, shape
from day0.report.numbers import spans
from day0.report.parts import Section, Table, amount, size, whole, word

COLUMNS = (
    *("verdict", "family", "shapes", "ops", "layers", "params", "flops/token", "bytes/token"),
    *("implementation or reasons", "attributes"),
)


def operators(report: Mapping[str, Any]) -> Section:
    """The inventory: one row for each family, attributes, shapes and formats."""
    rows = tuple(
        (
            word(entry["verdict"], tone=VERDICT_TONE[entry["verdict"]]),
            word(entry["family"], code=True, facts=tuple(entry["because"])),
            word(_shapes(entry), code=True),
            whole(entry["count"]),
            word(spans(entry["layers"])),
            amount(entry["params"]),
            amount(entry["flops_per_token"]),
            size(entry["bytes_per_token"]),
            word(
                entry["impl"] if entry["verdict"] == "reuse" else "; ".join(entry["reasons"]),
                code=entry["verdict"] == "reuse",
            ),
            word(", ".join(f"{key}={value}" for key, value in entry["attrs"].items()), code=True),
        )
        for entry in report["inventory"]
    )
    return Section(
        id="operators",
        title="Operators",
        lead=f"{len(rows)} distinct operators in {len(report['graph']['ops'])} places. Flops and "
        "bytes are of all places together, per token of a decode step at 4K tokens, batch 1.",
        parts=(Table(name="inventory", columns=COLUMNS, rows=rows),),
    )


def _shapes(entry: Mapping[str, Any]) -> str:
    """The weights' shapes; the inputs' where there are none."""
    specs = entry["weights"] or entry["inputs"]
    return ", ".join(f"{slot} {shape(spec)}" for slot, spec in specs.items())
