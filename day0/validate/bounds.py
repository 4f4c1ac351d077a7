"""Bounds in YAML, and an earlier report to compare with."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from day0.errors import Day0Error
from day0.validate.metrics import METRICS, Metric

SCHEMA = "day0.report/1"
# A figure that is worse by more than this, and by more than its repeats spread, is a regression.
WORSE = 0.1
_EXAMPLE = "write lines such as 'tpot_ms: 20' or 'output_throughput@b8-i128-o64: 1000'"


def read_bounds(path: Path | None) -> Mapping[str, float]:
    """Metric name (of one grid point: NAME@POINT) -> the most it may be, for a throughput the
    least. Day0Error names what is no metric or no number."""
    if path is None:
        return {}
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise Day0Error(f"--bounds {path} cannot be read: {reason}", hint=_EXAMPLE) from error
    if not isinstance(data, dict):
        raise Day0Error(f"--bounds {path} holds no mapping", hint=_EXAMPLE)
    for name, value in data.items():
        if str(name).partition("@")[0] not in METRICS:
            raise Day0Error(
                f"--bounds {path} names {name!r}; metrics are {', '.join(METRICS)}", hint=_EXAMPLE
            )
        real = isinstance(value, int | float) and not isinstance(value, bool)
        if not real or not math.isfinite(value):
            raise Day0Error(
                f"--bounds {path} gives {name} {value!r}; it must be a number", hint=_EXAMPLE
            )
    return data


def bounded(metrics: Iterable[Metric], bounds: Mapping[str, float]) -> tuple[Metric, ...]:
    """The metrics with the bounds put in. Day0Error for a bound on a figure that nobody took."""
    found = tuple(
        replace(metric, bound=bounds.get(metric.name, metric.bound)) for metric in metrics
    )
    names = {metric.name for metric in found}
    missing = [name for name in bounds if name not in names]
    if missing:
        raise Day0Error(
            f"--bounds names {missing[0]}, which this call does not measure",
            hint=f"measured are {', '.join(sorted(names)[:12])}, ...; see --grid and --cell",
        )
    return found


def read_baseline(path: Path, *, model: str, recipe: str, device: str) -> Mapping[str, Any]:
    """An earlier report.json of the same model, recipe and device; Day0Error for another one."""
    hint = "day0 validate MODEL --out DIR writes DIR/report.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise Day0Error(f"--baseline {path} cannot be read: {error}", hint=hint) from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise Day0Error(f"--baseline {path} is no {SCHEMA}", hint=hint)
    try:
        of = data["model"]["id"], data["recipe"], data["environment"]["device_name"]
        _ = [(row["name"], row["value"]) for row in data["metrics"]]
        _ = [(row["id"], row["status"]) for row in data["cells"]]
    except (KeyError, TypeError) as error:
        raise Day0Error(
            f"--baseline {path} is no whole report: {error} is missing or no such thing", hint=hint
        ) from error
    asked = model, recipe, device
    for what, have, wanted in zip(("model", "recipe", "device"), of, asked, strict=True):
        if have != wanted:
            raise Day0Error(
                f"--baseline {path} is of {what} {have!r}; this call is of {wanted!r}", hint=hint
            )
    return data


def against(
    metrics: Iterable[Metric], cells: Iterable[Mapping[str, Any]], earlier: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Each figure of both reports with its change, and cells that passed and do no more."""
    before = {row["name"]: row for row in earlier["metrics"]}
    rows = []
    for metric in metrics:
        old = before.get(metric.name, {}).get("value")
        if not old or metric.value is None:
            continue
        change = metric.value / old - 1
        worse = -change if metric.rises else change
        spread = max(metric.spread or 0.0, before[metric.name].get("spread") or 0.0)
        rows.append(
            {
                "name": metric.name,
                "before": old,
                "now": metric.value,
                "change": change,
                "regression": worse > max(WORSE, spread),
            }
        )
    passed = {row["id"] for row in earlier["cells"] if row["status"] == "pass"}
    rows += [
        {"name": f"cell {cell['id']}", "before": "pass", "now": cell["status"], "change": None,
         "regression": True}
        for cell in cells
        if cell["id"] in passed and cell["status"] == "fail"
    ]  # fmt: skip
    return rows
