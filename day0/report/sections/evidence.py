"""What the report rests on: the proof, the facts, what was noticed."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from day0.report.parts import (
    Note,
    Notes,
    Pairs,
    Part,
    Section,
    Table,
    Words,
    size,
    whole,
    word,
)
from day0.report.sections.overview import PROOF_TONE, PROOF_WORDS

SEVERITIES = ("error", "warning", "info")
HOWS = {
    "stated": "given by --facts",
    "config": "a key of config.json",
    "header": "read off tensor shapes",
    "known": "our own table, keyed on words of the config",
    "default": "what an absent key means, or the published class default",
    "assumed": "nothing supports it",
}


def findings(report: Mapping[str, Any]) -> Section:
    """Findings, worst first."""
    items = sorted(report["findings"], key=lambda item: SEVERITIES.index(item["severity"]))
    notes = Notes(
        items=tuple(
            Note(
                severity=item["severity"],
                message=item["message"],
                code=item["code"],
                evidence=tuple(item["evidence"]),
            )
            for item in items
        )
    )
    counted = Counter(item["severity"] for item in items)
    lead = ", ".join(f"{counted[name]} {name}" for name in SEVERITIES if counted[name])
    return Section(
        id="findings", title="Findings", lead=lead or "None.", parts=(notes,) if items else ()
    )


def proof(report: Mapping[str, Any]) -> Section:
    """Tensors against the graph, and the config against the reader."""
    found = report["proof"]
    rows = [
        ("status", word(found["status"], tone=PROOF_TONE[found["status"]])),
        ("tensors expected", whole(found["expected"])),
        ("tensors that match", whole(found["matched"])),
        ("missing", whole(len(found["missing"]))),
        ("unexpected", whole(len(found["unexpected"]))),
        ("of another shape", whole(len(found["shape"]))),
        ("of another dtype", whole(len(found["dtype"]))),
        ("unexplained bytes", size(found["unexplained_bytes"])),
        ("explained, not executed", size(found["opaque_bytes"])),
        ("config keys nobody read", word(", ".join(report["config"]["unread_keys"]) or "none")),
    ]
    parts: list[Part] = [Pairs(rows=tuple(rows))]
    if report["groups"]:
        parts.append(
            Table(
                name="groups",
                columns=("not executed", "role", "tensors", "params", "bytes"),
                rows=tuple(
                    (
                        word(group["name"], code=True),
                        word(group["role"]),
                        whole(group["tensors"]),
                        whole(group["params"]),
                        size(group["bytes"]),
                    )
                    for group in report["groups"]
                ),
            )
        )
    lead = f"{PROOF_WORDS[found['status']].capitalize()}. A proof speaks of tensors, not of what "
    return Section(id="proof", title="Proof", lead=f"{lead}is computed with them.",
                   parts=tuple(parts))  # fmt: skip


def facts(report: Mapping[str, Any]) -> Section:
    """Every fact behind the graph, with where it comes from."""
    counted = Counter(fact["how"] for fact in report["facts"])
    lead = ", ".join(f"{counted[how]} {how}" for how in HOWS if counted[how])
    decisive = [fact for fact in report["semantics"]["assumed"] if fact["decisive"]]
    parts: list[Part] = []
    if decisive:
        shown = ", ".join(f"{fact['path']} = {fact['value']}" for fact in decisive)
        text = f"Assumed, though they change the numbers: {shown}. State them with --facts."
        parts.append(Words(text=text, tone="warn"))
    rows = tuple(
        (
            replace(word(fact["path"], code=True), anchor=f"fact-{fact['path']}"),
            word(fact["value"], code=True),
            word(fact["how"], tone=_tone(fact)),
            word(fact["source"]),
            word("changes the numbers" if fact["decisive"] else ""),
        )
        for fact in report["facts"]
    )
    parts.append(
        Table(
            name="facts",
            columns=("fact", "value", "how", "source", ""),
            rows=rows,
            caption=f"All {len(rows)} facts",
            folded=True,
        )
    )
    parts.append(Pairs(rows=tuple((how, word(text)) for how, text in HOWS.items() if counted[how])))
    return Section(id="facts", title="Facts", lead=f"{len(rows)}: {lead}.", parts=tuple(parts))


def _tone(fact: Mapping[str, Any]) -> str:
    if fact["how"] != "assumed":
        return ""
    return "warn" if fact["decisive"] else "dim"
