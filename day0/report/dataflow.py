"""The dataflow of one layer, or of what stands around the layers, as a diagram."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from day0.report.layer_kinds import layer_of, local
from day0.report.parts import Cell, Diagram, Edge, Node, amount, size, word

VERDICT_TONE = {"reuse": "good", "quant-rework": "warn", "new": "bad"}
Op = Mapping[str, Any]


def flow(
    name: str, title: str, ops: Sequence[Op], graph: Mapping[str, Any], report: Mapping[str, Any]
) -> Diagram:
    """Diagram of some ops of a graph: their values, the caches they use, and what comes from and
    goes to the rest of the graph."""
    return _Flow(ops, graph, report).diagram(name, title)


class _Flow:
    """Builds one diagram."""

    def __init__(self, ops: Sequence[Op], graph: Mapping[str, Any], report: Mapping[str, Any]):
        self.ops, self.graph, self.report = ops, graph, report
        self.made = {value: op["id"] for op in ops for value in op["outputs"].values()}
        self.users = _cache_users(ops)
        self.nodes: dict[str, Node] = {}
        self.edges: dict[tuple[str, str], Edge] = {}

    def diagram(self, name: str, title: str) -> Diagram:
        for op in self.ops:
            self._inputs(op)
            self.nodes[op["id"]] = self._op(op)
            self._caches(op)
        self._outputs()
        return Diagram(
            name=name,
            title=title,
            nodes=tuple(self.nodes.values()),
            edges=tuple(self.edges.values()),
        )

    def _inputs(self, op: Op) -> None:
        for value in op["inputs"].values():
            source = self.made.get(value)
            if source is None:
                source = f"in:{value}"
                node = Node(id=source, label=origin(value), remark=self._dims(value), kind="input")
                self.nodes.setdefault(source, node)
            self._edge(source, op["id"])

    def _own(self, op: Op, use: Mapping[str, str]) -> bool:
        """Whether nobody but this op of this layer uses the cache."""
        alone = len(self.users[use["cache"]]) == 1
        return alone and layer_of(use["cache"]) == layer_of(op["id"])

    def _caches(self, op: Op) -> None:
        for use in op["caches"]:
            if self._own(op, use):
                continue
            name = f"cache:{use['cache']}"
            label, owner = local(use["cache"]), layer_of(use["cache"])
            remark = "cache" if owner == layer_of(op["id"]) else f"cache of layer {owner}"
            self.nodes.setdefault(name, Node(id=name, label=label, remark=remark, kind="cache"))
            if use["mode"] == "w":
                self._edge(op["id"], name, style="side")
            else:
                self._edge(name, op["id"], style="side")

    def _outputs(self) -> None:
        """What leaves: values read by other ops of the graph, and the graph's own outputs."""
        inside = {op["id"] for op in self.ops}
        elsewhere: dict[str, str] = {}
        for op in self.graph["ops"]:
            if op["id"] not in inside:
                for value in op["inputs"].values():
                    if value in self.made:
                        elsewhere.setdefault(value, place(op["id"]))
        for value in self.graph["outputs"]:
            if value in self.made:
                elsewhere[value] = "output"
        for value, where in elsewhere.items():
            name = f"out:{value}"
            self.nodes[name] = Node(id=name, label=f"to {where}", kind="output")
            self._edge(self.made[value], name)

    def _edge(self, source: str, target: str, style: str = "") -> None:
        edge = Edge(source=source, target=target, style=style)
        self.edges.setdefault((source, target), edge)

    def _shape(self, value: str) -> str:
        spec = self.graph["values"].get(value)
        return "" if spec is None else shape(spec)

    def _dims(self, value: str) -> str:
        return self._shape(value).partition("]")[0] + "]" if value in self.graph["values"] else ""

    def _op(self, op: Op) -> Node:
        number = op["inventory"]
        entry = None if number is None else self.report["inventory"][number]
        first = next(iter(op["outputs"].values()), "")
        own = [local(use["cache"]) for use in op["caches"] if self._own(op, use)]
        return Node(
            id=op["id"],
            label=_short(local(op["id"])),
            remark=f"{op['family']} {self._dims(first)}".rstrip(),
            keeps=", ".join(_short(name) for name in own),
            tone="" if entry is None else VERDICT_TONE[entry["verdict"]],
            kind="op",
            details=tuple(self._details(op, entry)),
        )

    def _details(self, op: Op, entry: Mapping[str, Any] | None) -> Iterable[tuple[str, Cell]]:
        yield "operator", word(op["id"], code=True)
        yield "family", word(op["family"])
        if entry is not None:
            yield "verdict", word(verdict_words(entry), tone=VERDICT_TONE[entry["verdict"]])
        for slot, value in op["inputs"].items():
            yield f"in {slot}", word(f"{value} {self._shape(value)}", code=True)
        for slot, value in op["outputs"].items():
            yield f"out {slot}", word(f"{value} {self._shape(value)}", code=True)
        for slot, weight in op["weights"].items():
            spec = "" if entry is None else shape(entry["weights"][slot])
            yield f"weight {slot}", word(f"{weight} {spec}", code=True)
        for use in op["caches"]:
            yield f"cache {use['slot']}", word(f"{use['cache']} ({use['mode']})", code=True)
        if op["attrs"]:
            shown = ", ".join(f"{key}={value}" for key, value in op["attrs"].items())
            yield "attributes", word(shown, code=True)
        if entry is not None:
            yield "decode flops per token", amount(entry["flops_per_token"] / entry["count"])
            yield "decode bytes per token", size(entry["bytes_per_token"] / entry["count"])
        if op["because"]:
            yield "facts", word(f"{len(op['because'])} behind it", facts=tuple(op["because"]))


def _cache_users(ops: Sequence[Op]) -> dict[str, set[str]]:
    users: dict[str, set[str]] = defaultdict(set)
    for op in ops:
        for use in op["caches"]:
            users[use["cache"]].add(op["id"])
    return users


def _short(name: str) -> str:
    """Without the half of the layer, which its neighbours tell."""
    return name.removeprefix("mixer.").removeprefix("ffn.")


def verdict_words(entry: Mapping[str, Any]) -> str:
    """The verdict and its ground."""
    why = entry["impl"] if entry["verdict"] == "reuse" else "; ".join(entry["reasons"])
    return f"{entry['verdict']}: {why}" if why else entry["verdict"]


def shape(spec: Mapping[str, Any]) -> str:
    """[T, 4096] bf16."""
    return f"[{', '.join(map(str, spec['dims']))}] {spec['format']}"


def place(name: str) -> str:
    """Where an op stands: "layer 3", or its own name."""
    layer = layer_of(name)
    return f"layer {layer}" if layer >= 0 else name


def origin(value: str) -> str:
    """Where a value comes from: "layer 3: ffn.residual", or its own name."""
    layer = layer_of(value)
    return f"layer {layer}: {local(value)}" if layer >= 0 else value
