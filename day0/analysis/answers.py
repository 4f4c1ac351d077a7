"""What a check answers, what it is asked about, and the words it answers in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from day0.passes.choose import BUILT_IN

SHOWN = 4  # names that one evidence lists before it counts the rest
LONG = 160  # letters of a quotation


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`status`: one of checklist.STATUSES."""

    status: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The analysis as JSON, and the families that are asked about (none named: all)."""

    data: Mapping[str, Any]
    families: frozenset[str] = frozenset()

    def ops(self) -> Iterator[Mapping[str, Any]]:
        """Operators of the graph and of the drafts."""
        graphs = (self.data["graph"], *self.data["drafts"].values())
        return (op for graph in graphs for op in graph["ops"] if self._holds(op["family"]))

    def entries(self) -> list[Mapping[str, Any]]:
        """Rows of the inventory. Addressing that the runtime does itself is no operator to have."""
        return [
            entry
            for entry in self.data["inventory"]
            if self._holds(entry["family"]) and entry["family"] not in BUILT_IN
        ]

    def _holds(self, family: str) -> bool:
        return not self.families or family in self.families


def listed(names: list[str]) -> str:
    """Different names in order, the first few in full."""
    names = list(dict.fromkeys(names))
    shown = ", ".join(name[:LONG] for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"


def passed(evidence: str) -> Answer:
    return Answer(status="pass", evidence=evidence)


def failed(evidence: str) -> Answer:
    return Answer(status="fail", evidence=evidence)


def unknown(evidence: str) -> Answer:
    return Answer(status="unknown", evidence=evidence)


def todo(evidence: str) -> Answer:
    return Answer(status="todo", evidence=evidence)
