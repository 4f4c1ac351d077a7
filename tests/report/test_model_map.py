"""The whole model as boxes and arrows: which layers share a box, and what passes between them."""

from collections.abc import Iterable
from typing import Any

from day0.report.layer_kinds import layer_kinds
from day0.report.model_map import model_map
from day0.report.parts import Diagram
from tests.report.pages import KIMI_K3, report_of


def map_of(report: dict[str, Any]) -> Diagram:
    return model_map(report, layer_kinds(report))


def labels(diagram: Diagram) -> list[str]:
    return [node.label for node in diagram.nodes if node.kind == "layers"]


def around(diagram: Diagram) -> dict[tuple[str, str], str]:
    named = {node.id: node.label for node in diagram.nodes}
    return {
        (named[edge.source], named[edge.target]): edge.label
        for edge in diagram.edges
        if edge.style == "around"
    }


def test_each_residual_block_of_kimi_k3_is_a_box_that_all_later_ones_read() -> None:
    diagram = map_of(report_of(KIMI_K3))
    boxes = labels(diagram)
    assert boxes == [f"layers {at}-{min(at + 11, 92)}" for at in range(0, 93, 12)]
    order = ["embedding", *boxes, "head"]
    found = around(diagram)
    assert set(found.values()) == {"residual block"}
    # The path itself carries the last block to its neighbour and the embedding to the first.
    reads = {
        (one, two)
        for number, one in enumerate(order)
        for two in order[number + 1 :]
        if (one, two) not in (("embedding", "layers 0-11"), ("embedding", "head"))
    }
    assert set(found) <= reads | {("embedding", "layers 0-11")}
    assert {pair for pair in reads if order.index(pair[1]) > order.index(pair[0]) + 1} <= set(found)


def test_shared_indices_pass_between_boxes_and_inside_them() -> None:
    diagram = map_of(report_of("catalog:zai-org--glm-5.2"))
    assert labels(diagram) == ["layers 0-2", "layers 3-5", "layers 6-77"]
    indices = {pair for pair, label in around(diagram).items() if label == "top-k indices"}
    assert indices == {("layers 0-2", "layers 3-5")}
    inside = next(node for node in diagram.nodes if node.label == "layers 6-77")
    assert inside.remark == "(C B B B) x 18; top-k indices shared inside"


def test_a_draft_reads_the_trunk_and_shares_its_weights() -> None:
    diagram = map_of(report_of("catalog:zai-org--glm-5.3-flash"))
    assert around(diagram) == {("embedding", "draft mtp"): "shares embed, head"}
    named = {node.id: node.label for node in diagram.nodes}
    into = {named[edge.source]: edge.label for edge in diagram.edges if edge.target == "draft:mtp"}
    assert into == {"head": "hidden", "next_ids": "", "embedding": "shares embed, head"}


def test_caches_and_weights_of_other_layers_are_arrows() -> None:
    """The last layer reads the cache of the first one, and two layers have one set of weights."""
    layers = [
        op(0, "embedding", caches=[("layers.0.mixer.kv", "w")], weight="layers.0.w"),
        op(1, "layers.0.mixer.op", caches=[("layers.0.mixer.kv", "r")]),
        op(2, "layers.1.mixer.op", weight="layers.0.w"),
        op(3, "layers.2.mixer.op", caches=[("layers.0.mixer.kv", "r")]),
    ]
    diagram = map_of(small_report("aabb", layers))
    assert around(diagram) == {("layers 0-1", "layers 2-3"): "weights, cache kv"}
    first = next(node for node in diagram.nodes if node.label == "layers 0-1")
    assert first.remark == "A x 2; cache kv shared inside"


def op(
    layer: int,
    source: str,
    caches: Iterable[tuple[str, str]] = (),
    weight: str = "",
) -> dict[str, Any]:
    return {
        "id": f"layers.{layer}.mixer.op",
        "family": "linear",
        "inputs": {"x": source},
        "outputs": {"y": f"layers.{layer}.mixer.op"},
        "caches": [{"slot": "kv", "cache": cache, "mode": mode} for cache, mode in caches],
        "weights": {"weight": weight} if weight else {},
    }


def small_report(mixers: str, layers: list[dict[str, Any]]) -> dict[str, Any]:
    embedding = {"id": "embedding", "family": "embedding", "inputs": {"ids": "ids"},
                 "outputs": {"y": "embedding"}, "caches": [], "weights": {}}  # fmt: skip
    views = [{"index": at, "mixer": name, "ffn": ""} for at, name in enumerate(mixers)]
    return {"layers": views, "graph": {"ops": [embedding, *layers]}, "drafts": {}}
