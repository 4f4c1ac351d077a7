"""The whole model as a diagram: layers as boxes, what passes between them, drafts beside them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from day0.report.layer_kinds import LayerKind, layer_of, local
from day0.report.parts import Diagram, Edge, Node
from day0.report.repeats import runs

FAR = 8  # a value read further on than this ends a box: what keeps it is worth seeing
BEFORE, AFTER = "before", "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Something made in layer `source` (-1: before the layers) and used in `target` (the number of
    layers: after them), past others or shared."""

    source: int
    target: int
    what: str


def model_map(report: Mapping[str, Any], kinds: Sequence[LayerKind]) -> Diagram:
    """Boxes of repeated layers, the main path, and crossings between boxes."""
    letters = _letters(kinds)
    crossings = tuple(dict.fromkeys(_crossings(report["graph"], len(letters))))
    boxes = _boxes(letters, crossings)
    home = {layer: _id(box) for box in boxes for layer in box}
    home |= {-1: BEFORE, len(letters): AFTER}
    nodes = [
        Node(id="ids", label="ids", kind="input"),
        Node(id=BEFORE, label="embedding", remark=_outside(report, BEFORE), kind="part"),
    ]
    nodes += [_box_node(box, letters, crossings, home) for box in boxes]
    nodes.append(Node(id=AFTER, label="head", remark=_outside(report, AFTER), kind="part"))
    path = ["ids", BEFORE, *(_id(box) for box in boxes), AFTER]
    edges = [Edge(source=one, target=two) for one, two in pairwise(path)]
    edges += _between(crossings, home)
    for name, draft in report["drafts"].items():
        draft_nodes, draft_edges = _draft(name, draft, report["graph"])
        nodes += draft_nodes
        edges += draft_edges
    return Diagram(name="model", title="The whole model", nodes=tuple(nodes), edges=tuple(edges))


def _letters(kinds: Sequence[LayerKind]) -> list[str]:
    by_layer = {layer: kind.letter for kind in kinds for layer in kind.layers}
    return [by_layer[layer] for layer in sorted(by_layer)]


def _crossings(graph: Mapping[str, Any], count: int) -> Iterator[Crossing]:
    """Values past a layer, chosen positions, caches and weights of other layers."""
    made = {value: op for op in graph["ops"] for value in op["outputs"].values()}
    seen = False
    for op in graph["ops"]:
        layer = layer_of(op["id"])
        seen = seen or layer >= 0
        if not seen:
            continue
        layer = layer if layer >= 0 else count
        for value in op["inputs"].values():
            source = layer_of(value)
            maker = made.get(value)
            if maker is None or source == layer or (source < 0 and layer in (0, count)):
                continue
            if "indexer" in maker["family"]:
                yield Crossing(source=source, target=layer, what="top-k indices")
            elif source != layer - 1:
                what = "residual block" if op["family"] == "attn_residual" else local(value)
                yield Crossing(source=source, target=layer, what=what)
        for use in op["caches"]:
            source = layer_of(use["cache"])
            if source not in (layer, -1):
                yield Crossing(source=source, target=layer, what=f"cache {_last(use['cache'])}")
        for weight in op["weights"].values():
            source = layer_of(weight)
            if source not in (layer, -1):
                yield Crossing(source=source, target=layer, what="weights")


def _boxes(letters: Sequence[str], crossings: Sequence[Crossing]) -> list[range]:
    """Layers that share a box: up to each layer whose values are read far on; where there is none,
    the runs of the pattern."""
    ends = {
        item.source + 1
        for item in crossings
        if item.what != "weights" and 0 <= item.source < item.target - FAR
    }
    if not ends:
        return [range(run.start, run.start + run.length) for run in runs(letters)]
    cuts = sorted({0, len(letters), *ends})
    return [range(one, two) for one, two in pairwise(cuts)]


def _box_node(
    box: range,
    letters: Sequence[str],
    crossings: Sequence[Crossing],
    home: Mapping[int, str],
) -> Node:
    pattern = ", ".join(run.text for run in runs(letters[box.start : box.stop], box.start))
    inside = dict.fromkeys(
        item.what for item in crossings if home[item.source] == _id(box) == home[item.target]
    )
    notes = [pattern, *(f"{what} shared inside" for what in inside)]
    label = f"layer {box[0]}" if len(box) == 1 else f"layers {box[0]}-{box[-1]}"
    return Node(id=_id(box), label=label, remark="; ".join(notes), kind="layers")


def _between(crossings: Sequence[Crossing], home: Mapping[int, str]) -> list[Edge]:
    """One arrow for each pair of boxes, naming what passes."""
    what: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for item in crossings:
        source, target = home[item.source], home[item.target]
        if source != target:
            what[source, target][item.what] = None
    return [
        Edge(source=source, target=target, label=", ".join(names), style="around")
        for (source, target), names in what.items()
    ]


def _draft(
    name: str, draft: Mapping[str, Any], main: Mapping[str, Any]
) -> tuple[list[Node], list[Edge]]:
    """A draft graph beside the trunk: what it reads of it and which weights it shares."""
    box = f"draft:{name}"
    remark = f"{len(draft['ops'])} operators"
    nodes = [Node(id=box, label=f"draft {name}", remark=remark, kind="part")]
    edges = []
    for value in draft["inputs"]:
        if value == "hidden":
            edges.append(Edge(source=AFTER, target=box, label="hidden"))
        else:
            nodes.append(Node(id=f"in:{value}", label=value, kind="input"))
            edges.append(Edge(source=f"in:{value}", target=box))
    used = {weight for op in main["ops"] for weight in op["weights"].values()}
    shared = dict.fromkeys(
        weight for op in draft["ops"] for weight in op["weights"].values() if weight in used
    )
    if shared:
        label = "shares " + ", ".join(shared)
        edges.append(Edge(source=BEFORE, target=box, label=label, style="around"))
    return nodes, edges


def _outside(report: Mapping[str, Any], side: str) -> str:
    """Families of the trunk's ops before or after the layers."""
    seen_layer, found = False, {}
    for op in report["graph"]["ops"]:
        if layer_of(op["id"]) >= 0:
            seen_layer = True
        elif seen_layer == (side == AFTER):
            found[op["family"]] = None
    return ", ".join(found)


def _id(box: range) -> str:
    return f"layers:{box.start}"


def _last(name: str) -> str:
    return name.rpartition(".")[2]
