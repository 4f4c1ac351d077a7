"""Templates to text. Filters write Python literals the way the formatter would."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from day0.analysis.checklist import STATUSES, Checklist
from day0.resources import folder

WIDTH = 100  # columns of generated sources


def render(template: str, **values: Any) -> str:
    """The template `template`.tmpl of templates/ with these values, ending in one newline. Halves
    of surrogate pairs, which a config may hold and no file can, are written as escapes."""
    text = _environment().get_template(f"{template}.tmpl").render(values).rstrip("\n") + "\n"
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def answers(checklist: Checklist) -> dict[str, Any]:
    """A checklist as checklist.md takes it: `counts` by status, `stages` with their marks."""
    stages = dict.fromkeys(mark.stage for mark in checklist.marks)
    return {
        "counts": ", ".join(f"{checklist.count(status)} {status}" for status in STATUSES),
        "stages": [(stage, [m for m in checklist.marks if m.stage == stage]) for stage in stages],
    }


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(folder("templates")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    filters = {"literal": literal, "ranges": ranges, "places": places, "tail": _tail, "yaml": _yaml,
               "oneline": _oneline}  # fmt: skip
    made.filters.update(filters)
    return made


def literal(value: Any, indent: int = 0, used: int | None = None) -> str:
    """Python source of plain data, as the formatter writes it, on a line that is indented by
    `indent` and `used` up to that column. Mappings stand one entry a line, tuples where they
    must."""
    inner, end = " " * (indent + 4), " " * indent
    used = indent if used is None else used
    if isinstance(value, Mapping):
        if not value:
            return "{}"
        keys = {key: f"{inner}{literal(key)}: " for key in value}
        rows = (
            f"{keys[key]}{literal(item, indent + 4, len(keys[key]))},\n"
            for key, item in value.items()
        )
        return "{\n" + "".join(rows) + end + "}"
    if isinstance(value, list | tuple):
        line = ", ".join(literal(item) for item in value)
        line = f"({line},)" if len(value) == 1 else f"({line})"
        if used + len(line) < WIDTH:
            return line
        rows = (f"{inner}{literal(item, indent + 4)},\n" for item in value)
        return "(\n" + "".join(rows) + end + ")"
    if isinstance(value, str):
        bare = '"' in value and "'" not in value
        return repr(value) if bare else json.dumps(value, ensure_ascii=False)
    return repr(value)


def ranges(numbers: Iterable[int], most: int = 1000) -> str:
    """ "0, 2-4", or the first `most` of them and how many numbers more there are."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    shown = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found[:most])
    rest = sum(b - a + 1 for a, b in found[most:])
    return f"{shown} and {rest} more" if rest else shown


def places(layers: tuple[int, ...]) -> str:
    """ "layers 0, 2-4", or in words that it is none of them."""
    return f"layers {ranges(layers)}" if layers else "no layer: before or after all of them"


def _tail(dims: Iterable[int]) -> str:
    return "".join(f", {dim}" for dim in dims)


def _yaml(value: Any) -> str:
    return (
        yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
    )


def _oneline(text: str) -> str:
    """Without line ends; a bar or an angle bracket of a model's own words is no markup."""
    return " ".join(text.split()).replace("<", "&lt;").replace("|", "\\|")
