"""The checklists of checklists/, answered for one model from evidence alone.

The analysis is read as the JSON of schema day0.analysis/1, so that an item may ask for a part of
it that this version does not make yet: such an item stays unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from day0.analysis.answers import Answer, Scope
from day0.analysis.checks import ask
from day0.analysis.measured import NOTHING, Measured
from day0.registry.index import added_checklists
from day0.resources import folder

STATUSES = ("pass", "fail", "unknown", "todo")
# checklists/stages/*.yaml in the order of the work.
STAGES = (
    "architecture", "operators", "precision", "parallelism", "scheduling", "compilation",
    "validation", "assets",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question of a checklist, as checklists/README.md describes it. `stage` is that of the
    file, or "ops/<family>"; `families` are those that its file speaks for, () for all."""

    id: str
    stage: str
    ask: str
    why: str
    proof: str
    when: Mapping[str, Any] = field(default_factory=dict)
    at_most: float | None = None
    at_least: float | None = None
    families: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An item with its answer.

    `status`: "pass" the proof says yes; "fail" it says no; "unknown" nobody has asked it, or it
    cannot tell; "todo" the answer is work: an operator to write, a fact to state, evidence that a
    person has to read. `evidence` is what was found, or what would have to be done.
    """

    id: str
    stage: str
    status: str
    evidence: str
    ask: str
    why: str
    proof: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checklist:
    """`marks` in the order of the work; `left_out` names ("stage/id") items whose `when` does not
    hold for this model and recipe."""

    marks: tuple[Mark, ...]
    left_out: tuple[str, ...]

    def count(self, status: str) -> int:
        """How many items have this status."""
        return sum(mark.status == status for mark in self.marks)

    def rows(self) -> list[dict[str, str]]:
        """As JSON."""
        names = ("id", "stage", "status", "evidence", "ask", "why", "proof")
        return [{name: getattr(mark, name) for name in names} for mark in self.marks]


def answered(analysis: Mapping[str, Any], measured: Measured = NOTHING) -> Checklist:
    """Every item that applies to the model of `analysis` (day0.analysis/1), with its answer."""
    ops = [*analysis["graph"]["ops"], *_draft_ops(analysis)]
    present = frozenset(op["family"] for op in ops)
    marks, left_out = [], []
    for item in items(present):
        if not _applies(item.when, analysis, present):
            left_out.append(f"{item.stage}/{item.id}")
            continue
        named = _names(item.when.get("family", ())) or item.families
        answer = _answer(item, Scope(data=analysis, families=frozenset(named)), measured)
        marks.append(
            Mark(
                id=item.id,
                stage=item.stage,
                status=answer.status,
                evidence=answer.evidence,
                ask=item.ask,
                why=item.why,
                proof=item.proof,
            )
        )
    return Checklist(marks=tuple(marks), left_out=tuple(left_out))


def items(families: frozenset[str]) -> tuple[Item, ...]:
    """Items of all stages, then those of every checklist that speaks for one of `families`."""
    place = folder("checklists")
    found = [item for stage in STAGES for item in read_items(place / "stages" / f"{stage}.yaml")]
    for path in (*sorted((place / "ops").glob("*.yaml")), *added_checklists()):
        known = read_items(path)
        if not families.isdisjoint(known[0].families):
            found += known
    return tuple(found)


@cache
def read_items(path: Path) -> tuple[Item, ...]:
    """The items of one file."""
    # The C loader where PyYAML has it: thirty small files are read for every model.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    stage, families = content.get("stage", ""), ()
    if not stage:
        stage = f"ops/{content['family']}"
        families = (content["family"], *content.get("covers", ()))
    return tuple(Item(stage=stage, families=families, **entry) for entry in content["items"])


def _answer(item: Item, scope: Scope, measured: Measured) -> Answer:
    kind, _, target = item.proof.partition(":")
    if kind == "analysis":
        return ask(target, scope)
    if kind == "test":
        return measured.test(target)
    return measured.figure(target, at_most=item.at_most, at_least=item.at_least)


# What a `when` may ask: of the analysis and the families of its graph, against the stated value.
CONDITIONS = ("recipe", "family", "growth", "drafts", "lookup")


def _applies(when: Mapping[str, Any], data: Mapping[str, Any], present: frozenset[str]) -> bool:
    facts = {
        "recipe": {data["recipe"]},
        "family": present,
        "growth": {row["growth"] for row in data["caches"]},
        "drafts": {bool(data["drafts"])},
        "lookup": {data["params"]["lookup"] > 0},
    }
    return all(not facts[key].isdisjoint(_names(wanted)) for key, wanted in when.items())


def _names(wanted: Any) -> tuple[Any, ...]:
    return tuple(wanted) if isinstance(wanted, list | tuple) else (wanted,)


def _draft_ops(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [op for graph in data["drafts"].values() for op in graph["ops"]]
