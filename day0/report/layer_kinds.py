"""Kinds of layers in the JSON of an analysis, and a typical layer of each."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LAYER = re.compile(r"(\w+)\.(\d+)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKind:
    """Layers of one mixer and one ffn. `shown`: a layer with the operators most of them have;
    `variants`: how many different sets of operators there are among them."""

    letter: str
    mixer: str
    ffn: str
    layers: tuple[int, ...]
    shown: int
    variants: int

    @property
    def title(self) -> str:
        return f"{self.mixer} + {self.ffn}" if self.ffn and self.mixer else self.mixer or self.ffn


def layer_of(name: str) -> int:
    """The trunk layer that an op, value or cache belongs to by its name; -1 for none."""
    found = _LAYER.match(name)
    return int(found[2]) if found and found[1] == "layers" else -1


def ops_by_layer(graph: Mapping[str, Any]) -> dict[int, list[dict[str, Any]]]:
    """Ops of the graph by layer, in program order."""
    table: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for op in graph["ops"]:
        table[layer_of(op["id"])].append(op)
    return table


def local(name: str) -> str:
    """The name inside its layer or draft: layers.3.mixer.q_proj -> mixer.q_proj."""
    found = _LAYER.match(name)
    return name[found.end() :] if found else name


def layer_kinds(report: Mapping[str, Any]) -> tuple[LayerKind, ...]:
    """Kinds in order of their first layer; letters beyond Z repeat."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for view in report["layers"]:
        groups[view["mixer"], view["ffn"]].append(view["index"])
    ops = ops_by_layer(report["graph"])
    found = []
    for number, ((mixer, ffn), layers) in enumerate(groups.items()):
        sets = {layer: _operators(ops.get(layer, [])) for layer in layers}
        counted = Counter(sets.values())
        common = counted.most_common(1)[0][0]
        alike = [layer for layer in layers if sets[layer] == common]
        found.append(
            LayerKind(
                letter=LETTERS[number % len(LETTERS)],
                mixer=mixer,
                ffn=ffn,
                layers=tuple(layers),
                shown=alike[len(alike) // 2],
                variants=len(counted),
            )
        )
    return tuple(found)


def _operators(ops: list[dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    return tuple((local(op["id"]), op["family"]) for op in ops)
