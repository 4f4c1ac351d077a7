"""config.json and its companions: parsed as they are, with a finding for whatever is unusual."""

import math
from typing import Any

from day0.checkpoint.json_file import parse_object
from day0.ir.fact import Finding

# How newer transformers releases write what JSON cannot say: {"__float__": "Infinity"}.
_TAG = "__float__"
_NON_FINITE = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def parse_config(raw: bytes, where: str, name: str) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    """Parse one of the small JSON files of a checkpoint.

    Bare Infinity, -Infinity and NaN and tagged floats become floats; strings stay as they are. A
    key stated twice keeps its last value. Both are findings, and so is `auto_map`. `where` names
    the file in errors, `name` in findings. Raises Day0Error when it is no JSON object.
    """
    twice: list[str] = []

    def build(pairs: list[tuple[str, Any]]) -> Any:
        table = dict(pairs)
        if len(table) != len(pairs):
            seen: set[str] = set()
            twice.extend(key for key, _ in pairs if key in seen or seen.add(key))
        if len(table) == 1 and isinstance(word := table.get(_TAG), str) and word in _NON_FINITE:
            return _NON_FINITE[word]
        return table

    config = parse_object(raw, where, pairs_hook=build, constant=_NON_FINITE.__getitem__)
    findings: list[Finding] = []
    if twice:
        findings.append(
            Finding(
                code="duplicate-key",
                severity="warning",
                message=f"{name} states {len(twice)} keys twice; the last value of each counts",
                evidence=tuple(dict.fromkeys(twice)),
            )
        )
    odd, remote = _notable(config)
    if odd:
        findings.append(
            Finding(
                code="non-finite",
                severity="info",
                message=f"{name} holds {len(odd)} numbers that plain JSON does not have",
                evidence=tuple(odd),
            )
        )
    if remote:
        findings.append(
            Finding(
                code="remote-code",
                severity="info",
                message=f"{name} names code of its own (auto_map); remote code is never executed",
                evidence=tuple(remote),
            )
        )
    return config, tuple(findings)


def _notable(config: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Paths of numbers that are not finite, and the entries of every `auto_map`, in file order.

    A loop, not a recursion: JSON may be nested deeper than Python may recurse.
    """
    odd: list[str] = []
    remote: list[str] = []
    todo: list[tuple[str, Any]] = [("", config)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, float) and not math.isfinite(value):
            odd.append(f"{path} = {value}")
        elif isinstance(value, dict):
            prefix = f"{path}." if path else ""
            if path.rpartition(".")[2] == "auto_map":
                remote.extend(f"{prefix}{key}: {target}" for key, target in value.items())
            todo.extend((f"{prefix}{key}", below) for key, below in reversed(value.items()))
        elif isinstance(value, list):
            below = [(f"{path}[{position}]", part) for position, part in enumerate(value)]
            todo.extend(reversed(below))
        elif path.rpartition(".")[2] == "auto_map" and value is not None:
            remote.append(f"{path}: {value}")
    return odd, remote
