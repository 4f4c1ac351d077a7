"""A deliberate fault: what it re-creates, how it is switched on, and which cell must see it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Any

import pytest

from day0.ir.graph import Model
from day0.ir.op import Op
from day0.runtime.opening import Opened

Patch = pytest.MonkeyPatch
Switch = Callable[[Patch, Opened], Opened]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """`of`: the public failure, a number of the field cases or a word of issue 8; `kind`: the tiny
    type it is switched on in; `cell` must fail and name one of `families` (its first difference,
    or among its suspects) in the first layer that has an op for which `where` holds."""

    name: str
    of: str
    kind: str
    cell: str
    families: tuple[str, ...]
    switch: Switch
    where: Callable[[Op], bool] | None = None

    def layer(self, model: Model) -> int:
        """The layer to be named."""
        where = self.where or (lambda op: op.family in self.families)
        return next(op.layer for op in model.graphs["main"].ops if where(op))


def part(entry: str, change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Switch:
    """A function, called as "module:name" or "module:Class.name", behind `change` of it."""
    module, _, path = entry.partition(":")

    def switch(patch: Patch, opened: Opened) -> Opened:
        owner: Any = import_module(module)
        *classes, name = path.split(".")
        for each in classes:
            owner = getattr(owner, each)
        patch.setattr(owner, name, change(getattr(owner, name)))
        return opened

    return switch


def argument(**changes: Callable[[Mapping[str, Any]], Any]) -> Callable[..., Callable[..., Any]]:
    """Calls with named arguments replaced by what their functions say of all of them."""

    def change(right: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(right)
        def wrong(*values: Any, **named: Any) -> Any:
            given = {**dict(zip(signature(right).parameters, values, strict=False)), **named}
            return right(**{**given, **{name: make(given) for name, make in changes.items()}})

        return wrong

    return change


def attribute(
    family: str,
    name: str,
    value: Callable[[Any], Any],
    where: Callable[[Op], bool] = lambda op: True,
    **also: Any,
) -> Switch:
    """The Graph with another attribute in every op of a family, as a reader that got a fact wrong
    would have built it."""

    def switch(patch: Patch, opened: Opened) -> Opened:
        def changed(op: Op) -> Op:
            if op.family != family or not where(op):
                return op
            attrs = {**dict(op.attrs), name: value(op.attr(name)), **also}
            return replace(op, attrs=tuple(sorted(attrs.items())))

        model = opened.model
        main = model.graphs["main"]
        ops = tuple(changed(op) for op in main.ops)
        assert ops != main.ops, f"no {family} has another {name}"
        graphs = {**model.graphs, "main": replace(main, ops=ops)}
        return replace(opened, model=replace(model, graphs=graphs))

    return switch
