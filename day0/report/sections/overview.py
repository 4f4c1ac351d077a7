"""What it is, in a few figures, and what is new."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from day0.report.dataflow import VERDICT_TONE
from day0.report.numbers import count, percent, spans
from day0.report.parts import (
    Pairs,
    Part,
    Section,
    Table,
    Tiles,
    Words,
    amount,
    size,
    whole,
    word,
)

PROOF_TONE = {"proved": "good", "incomplete": "warn", "contradicted": "bad", "no-headers": ""}
PROOF_WORDS = {
    "proved": "every tensor is explained",
    "incomplete": "some tensors are missing or unexplained",
    "contradicted": "tensors contradict the config",
    "no-headers": "no safetensors headers were read",
}


def overview(report: Mapping[str, Any]) -> Section:
    """Figures and names."""
    return Section(id="overview", title="Overview", parts=tuple(_overview(report)))


def _overview(report: Mapping[str, Any]) -> Iterator[Part]:
    model, params = report["model"], report["params"]
    new = report["new_fraction"]
    distinct = len(report["inventory"])
    fresh = sum(entry["verdict"] == "new" for entry in report["inventory"])
    proof = report["proof"]
    yield Tiles(
        items=(
            ("Parameters", amount(params["total"]), f"{count(params['active'])} active per token"),
            ("Checkpoint", size(report["bytes"]["checkpoint"]), _formats(report)),
            (
                "Context",
                whole(model["context_length"]),
                "tokens" if model["context_length"] else "not stated",
            ),
            (
                "KV cache",
                _bytes(report["kv_bytes_per_token"]),
                "per token at bf16" + _index(report["index_bytes_per_token"]),
            ),
            (
                "State",
                size(report["state_bytes_per_sequence"]),
                "per sequence, whatever its length",
            ),
            (
                "New operators",
                whole(fresh, tone="bad" if fresh else "good"),
                f"of {distinct} distinct; {percent(new['params'])} of parameters",
            ),
            (
                "Tensor proof",
                word(proof["status"], tone=PROOF_TONE[proof["status"]]),
                PROOF_WORDS[proof["status"]],
            ),
            (
                "Semantics",
                word(
                    "settled" if report["semantics"]["settled"] else "open",
                    tone="good" if report["semantics"]["settled"] else "warn",
                ),
                f"{len(report['semantics']['assumed'])} of {len(report['facts'])} facts assumed",
            ),
        )
    )
    if unknown := _unknown(report):
        yield Words(
            text=f"{unknown} unknown operators are in no figure: neither what they hold nor what "
            "they do is known.",
            tone="warn",
        )
    yield Pairs(rows=tuple(_names(report)))


def _names(report: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    model, params = report["model"], report["params"]
    yield "model", word(model["id"], code=True)
    if model["revision"]:
        yield "revision", word(model["revision"], code=True)
    yield "read from", word(_read(report["read"]) or model["origin"])
    yield "type", word(model["model_type"] or "no model_type", code=True)
    yield "architectures", word(", ".join(model["architectures"]), code=True)
    yield "dtype", word(model["dtype"], facts=("dtype",))
    yield "layers", whole(model["num_layers"], facts=("num_layers",))
    yield "hidden size", whole(model["hidden_size"], facts=("hidden_size",))
    yield "vocabulary", whole(model["vocab_size"], facts=("vocab_size",))
    yield "parameters of the trunk", whole(params["trunk"])
    if params["drafts"]:
        yield "parameters of drafts", whole(params["drafts"])
    if params["opaque"]:
        yield "parameters not executed", whole(params["opaque"])
    yield "active per token", whole(params["active"])
    yield "checkpoint bytes", whole(report["bytes"]["checkpoint"])
    yield "recipe of this report", word(report["recipe"])


def _read(files: Sequence[str]) -> str:
    shown = ", ".join(files[:3])
    return shown if len(files) <= 3 else f"{shown} and {len(files) - 3} more"


def news(report: Mapping[str, Any]) -> Section:
    """What has no optimised implementation yet, and why."""
    entries = [entry for entry in report["inventory"] if entry["verdict"] != "reuse"]
    new = report["new_fraction"]
    if not entries:
        return Section(
            id="new",
            title="What is new",
            lead="Nothing: every distinct operator has an optimised implementation.",
            parts=(),
        )
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for entry in entries:
        why = "; ".join(entry["reasons"])
        groups[entry["verdict"], entry["family"], why].append(entry)
    rows = tuple(
        (
            word(verdict, tone=VERDICT_TONE[verdict]),
            word(family, code=True, facts=tuple(dict.fromkeys(_because(group)))),
            word(why),
            word(spans(sorted({layer for entry in group for layer in entry["layers"]}))),
            whole(len(group)),
            whole(sum(entry["count"] for entry in group)),
            amount(sum(entry["params"] for entry in group)),
            amount(sum(entry["flops_per_token"] for entry in group)),
            size(sum(entry["bytes_per_token"] for entry in group)),
        )
        for (verdict, family, why), group in groups.items()
    )
    columns = (
        *("verdict", "family", "why", "layers", "distinct", "ops"),
        *("params", "flops/token", "bytes/token"),
    )
    return Section(
        id="new",
        title="What is new",
        lead=f"New are {percent(new['ops'])} of the distinct operators, {percent(new['params'])} "
        f"of the parameters, {percent(new['flops'])} of the flops and {percent(new['bytes'])} of "
        "the bytes of a decode step at 4K tokens. New means that no optimised implementation takes "
        'it; where "reference exists", the definition runs it, slowly.',
        parts=(Table(name="new", columns=columns, rows=rows),),
    )


def _because(entries: list[Mapping[str, Any]]) -> Iterator[str]:
    for entry in entries:
        yield from entry["because"]


def _bytes(value: float) -> Any:
    cell = whole(value)
    return word("0 B") if not value else type(cell)(text=f"{cell.text} B", value=value)


def _index(value: float) -> str:
    return f", index keys {value:,.10g} B" if value else ""


def _formats(report: Mapping[str, Any]) -> str:
    parts = report["bytes"]["by_format"]
    order = sorted(parts, key=lambda name: -parts[name])
    shown = ", ".join(order[:3]) + (", ..." if len(order) > 3 else "")
    return f"as {shown}" if report["proof"]["status"] == "no-headers" else f"stored: {shown}"


def _unknown(report: Mapping[str, Any]) -> int:
    return sum(
        entry["count"]
        for entry in report["inventory"]
        if entry["family"] == "unknown" and not entry["weights"]
    )
