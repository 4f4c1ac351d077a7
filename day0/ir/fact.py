"""Where a number comes from, and what was noticed."""

from dataclasses import dataclass
from typing import Any

HOWS = ("stated", "config", "header", "known", "default", "assumed")
SEVERITIES = ("info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A value that shapes the Graph, and its provenance.

    `how`: "stated" by --facts, "config" a key of config.json, "header" read off tensor shapes,
    "known" our own table keyed on words of the config, "default" the published class default of
    the config's model_type, "assumed" nothing supports it. `decisive`: it changes the numbers and
    no shape fixes it.
    """

    path: str
    value: Any
    how: str
    source: str = ""
    decisive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something a reader must know. `evidence` lists tensors, keys or values."""

    code: str
    severity: str
    message: str
    evidence: tuple[str, ...] = ()
