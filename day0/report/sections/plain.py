"""Plain data as parts: what a plan's JSON holds, shown as it is, figures in the unit of their key.

A list of records is a table, a record of figures is pairs, and what is nested follows under its
own caption. A plan whose shape deserves more (a plot, a matrix) has a section of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from day0.report.parts import (
    Cell,
    Note,
    Notes,
    Pairs,
    Part,
    Table,
    amount,
    share,
    size,
    whole,
    word,
)
from day0.report.plot_units import tokens

# What a key ends in says the unit; the first that fits counts.
_UNITS: tuple[tuple[tuple[str, ...], Callable[[float], Cell]], ...] = (
    (("bytes", "bytes_per_token", "bytes_per_rank", "bytes_per_sequence", "memory"), size),
    (("flops", "flops_per_token", "params", "parameters"), amount),
    (("share", "fraction", "efficiency", "imbalance"), share),
    (("tokens", "context", "length"), lambda value: Cell(text=tokens(value), value=value)),
    (("_ms",), lambda value: Cell(text=f"{value:,.4g} ms", value=value)),
    (("_us",), lambda value: Cell(text=f"{value:,.4g} us", value=value)),
    (("_s", "seconds"), lambda value: Cell(text=f"{value:,.4g} s", value=value)),
)
_TONES = {"pass": "good", "legal": "good", "fail": "bad", "illegal": "bad", "unknown": "warn",
          "todo": "dim", "reuse": "good", "quant-rework": "warn", "new": "bad"}  # fmt: skip
FOLD = 24  # rows; longer tables are shown closed


def parts_of(name: str, value: Any) -> tuple[Part, ...]:
    """Parts for any JSON value. `name`: for captions and for the tables' names."""
    if isinstance(value, Mapping):
        return _record(name, value)
    if _records(value):
        return _table(name, value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return (Notes(items=tuple(Note(severity="info", message=_words(item)) for item in value)),)
    return (Pairs(rows=((_title(name), cell(name, value)),)),)


def cell(key: str, value: Any) -> Cell:
    """A figure in the unit of its key, anything else as words."""
    if isinstance(value, bool):
        return word("yes" if value else "no")
    if isinstance(value, int | float):
        for ends, shown in _UNITS:
            if key.endswith(ends):
                return shown(value)
        return whole(value)
    return word(_words(value), tone=_TONES.get(value, "") if isinstance(value, str) else "")


def _record(name: str, record: Mapping[str, Any]) -> tuple[Part, ...]:
    flat = {key: value for key, value in record.items() if _flat(value)}
    found: list[Part] = []
    if flat:
        found.append(Pairs(rows=tuple((_title(key), cell(key, flat[key])) for key in flat)))
    for key, value in record.items():
        if key not in flat:
            found += parts_of(f"{name}.{key}", value)
    return tuple(found)


def _table(name: str, records: Sequence[Mapping[str, Any]]) -> tuple[Part, ...]:
    columns = dict.fromkeys(key for record in records for key in record)
    return (
        Table(
            name=name,
            columns=tuple(_title(column) for column in columns),
            rows=tuple(
                tuple(cell(column, record.get(column)) for column in columns) for record in records
            ),
            caption=f"{_title(name.rpartition('.')[2])} ({len(records)})",
            folded=len(records) > FOLD,
        ),
    )


def _records(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and bool(value) and all(isinstance(item, Mapping) for item in value)


def _flat(value: Any) -> bool:
    """A figure, a word, or a short list of them."""
    if isinstance(value, Mapping) or _records(value):
        return False
    return isinstance(value, str) or not isinstance(value, Sequence) or len(_words(value)) < 200


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{_title(key)} {_words(item)}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_words(item) for item in value) or "none"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return "-" if value is None else str(value)


def _title(key: str) -> str:
    return key.replace("_", " ")
