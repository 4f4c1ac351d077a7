"""Tensors that one layer lacks and its equals have: presence is evidence only where it is regular.

Mechanisms learn from what is stored (a bias, a q norm, a sink), so a file that lost such a tensor
reads like a model that never had it. Layers of one kind have one set of names; an exception to that
is told.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from day0.analysis.layers import layer_view
from day0.ir.fact import Finding
from day0.ir.graph import Model
from day0.ir.weight import leaves

SHOWN = 6
# An absence is an exception where at least so many equals have the tensor for each that lacks it.
EQUALS = 4
_LAYER = re.compile(r"(.*?\.)(\d+)\.(.*)", re.DOTALL)


def uneven(model: Model, tensors: Mapping[str, object], missing: Iterable[str]) -> list[Finding]:
    """The finding, or none; tensors already `missing` are not told again."""
    kinds: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, layer in enumerate(model.spec.layers):
        view = layer_view(index, layer, "")
        kinds[view["mixer"], view["ffn"]].append(index)
    tails = _tails(model)
    told = set(missing)
    absent: list[str] = []
    for numbers in kinds.values():
        holders: dict[tuple[str, str], list[int]] = defaultdict(list)
        for number in numbers:
            for stem, tail in tails.get(number, ()):
                if f"{stem}{number}.{tail}" in tensors:
                    holders[stem, tail].append(number)
        for (stem, tail), have in holders.items():
            lack = set(numbers) - set(have)
            if lack and len(lack) * EQUALS <= len(have):
                names = (f"{stem}{number}.{tail}" for number in sorted(lack))
                absent.extend(name for name in names if name not in told)
    if not absent:
        return []
    more = (f"and {len(absent) - SHOWN} more",) if len(absent) > SHOWN else ()
    return [
        Finding(
            code="uneven_layers",
            severity="warning",
            message=f"{len(absent)} tensors are not stored that all but a few layers of the same "
            "kind have; the layers are read as if they had none",
            evidence=(*absent[:SHOWN], *more),
        )
    ]


def _tails(model: Model) -> dict[int, set[tuple[str, str]]]:
    """By layer number: (what stands before the number, what behind it) of stored names."""
    found: dict[int, set[tuple[str, str]]] = defaultdict(set)
    for weight in model.weights.values():
        for expr in (weight.source, *weight.padding):
            for leaf, count in leaves(expr):
                for _, part in leaf.parts or (("data", leaf.name),):
                    match = None if count else _LAYER.match(part)
                    if match:
                        found[int(match[2])].add((match[1], match[3]))
    return found
