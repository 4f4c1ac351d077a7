"""Which parameters of the Graph a checkpoint's tensor fills, as patterns short enough to read."""

import re
from collections import Counter
from collections.abc import Mapping

from day0.ir.graph import Model
from day0.ir.weight import Cat, Expr, Leaf, Mul, Permute, Pick, Reshape, Stack, Tied

NUMBER = re.compile(r"(?<=\.)(?:\d+|\{e\})(?=\.|$)")
Rows = tuple[tuple[str, str], ...]


def weight_map(model: Model) -> dict[str, Rows]:
    """Pattern -> (parameter, what happens on the way, "" for nothing) of everything it fills.

    "{}" in a pattern stands for any number; "{0}" in a parameter for the pattern's first. A tensor
    that is used otherwise than most of its pattern keeps its first number.
    """
    found: dict[str, dict[tuple[str, str], None]] = {}
    for weight in model.weights.values():
        for expr in (weight.source, *weight.padding):
            for name, how in _uses(expr):
                found.setdefault(name, {})[weight.name, how] = None
    loose = {name: _rows(name, tuple(uses)) for name, uses in found.items()}
    several: dict[str, Counter[Rows]] = {}
    for name, rows in loose.items():
        several.setdefault(NUMBER.sub("{}", name), Counter())[rows] += 1
    usual = {pattern: counts.most_common(1)[0][0] for pattern, counts in several.items()}
    result: dict[str, Rows] = {}
    for name, rows in loose.items():
        pattern = NUMBER.sub("{}", name)
        if rows == usual[pattern]:
            result[pattern] = rows
        else:
            result[_with_first(name)] = tuple(found[name])
    return result


def left_out(model: Model, weights: Mapping[str, Rows]) -> tuple[str, ...]:
    """Patterns of tensors that are explained as groups and never executed; they keep their first
    number where a weight has the same pattern."""
    names = [name for group in model.groups for name in group.tensors]
    found = {name: NUMBER.sub("{}", name) for name in names}
    return tuple(
        dict.fromkeys(
            _with_first(name) if pattern in weights else pattern for name, pattern in found.items()
        )
    )


def _rows(name: str, uses: Rows) -> Rows:
    """With the tensor's first number as "{0}" where the parameter's first is the same."""
    first = _first(name)
    return tuple(
        (NUMBER.sub("{0}", parameter, count=1), how)
        if first.isdigit() and _first(parameter) == first
        else (parameter, how)
        for parameter, how in uses
    )


def _first(name: str) -> str:
    found = NUMBER.search(name)
    return found[0] if found else ""


def _with_first(name: str) -> str:
    """The pattern in which the first number stays."""
    first = NUMBER.search(name)
    if first is None:
        return name
    return name[: first.end()] + NUMBER.sub("{}", name[first.end() :])


def _uses(expr: Expr, how: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """(stored tensor, what happens to it on the way to the parameter)."""
    if isinstance(expr, Leaf):
        parts = expr.parts or (("data", expr.name),)
        said = "; ".join(how)
        return [
            (name, "; ".join((f"{part} of {expr.format}", *how)) if len(parts) > 1 else said)
            for part, name in parts
        ]
    if isinstance(expr, Tied):
        return []
    if isinstance(expr, Mul):
        return [use for side in (expr.left, expr.right) for use in _uses(side, ("a factor", *how))]
    if isinstance(expr, Cat):
        count = len(expr.of)
        return [
            use
            for number, part in enumerate(expr.of)
            for use in _uses(part, (f"part {number + 1} of {count} along dim {expr.dim}", *how))
        ]
    return _uses(expr.of, (_said(expr), *how))


def _said(expr: Stack | Pick | Permute | Reshape) -> str:
    if isinstance(expr, Stack):
        return f"one of {expr.count} under a new first dim"
    if isinstance(expr, Pick):
        return f"{expr.start}:{expr.stop} of every {expr.period} along dim {expr.dim}"
    if isinstance(expr, Permute):
        return f"dims in the order {', '.join(map(str, expr.order))}"
    return f"seen as [{', '.join(map(str, expr.dims))}]"
