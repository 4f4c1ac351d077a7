"""Graph.check: every value is defined once, before its first use."""

from dataclasses import replace

import pytest

from day0.ir.cache import CacheSpec
from day0.ir.graph import Graph
from day0.ir.op import Op
from day0.ir.tensor import TensorSpec

SPEC = TensorSpec(dims=("T", 4))


def op(name: str, x: str, y: str) -> Op:
    return Op(id=name, family="add", layer=0, inputs=(("x", x),), outputs=(("y", y),))


GRAPH = Graph(
    rows=(),
    inputs=("a",),
    outputs=("c",),
    values={"a": SPEC, "b": SPEC, "c": SPEC},
    ops=(op("one", "a", "b"), op("two", "b", "c")),
)


def test_producers_and_users():
    GRAPH.check()
    assert GRAPH.producers()["c"].id == "two"
    assert [user.id for user in GRAPH.users()["b"]] == ["two"]


@pytest.mark.parametrize(
    ("ops", "outputs", "text"),
    [
        ((op("two", "b", "c"), op("one", "a", "b")), ("c",), "two: input x reads b"),
        ((op("one", "a", "b"), op("two", "b", "b")), ("b",), "yields b a second time"),
        ((op("one", "a", "b"),), ("c",), "outputs that no op yields"),
    ],
    ids=["order", "twice", "output"],
)
def test_faults_are_named(ops, outputs, text):
    with pytest.raises(ValueError, match=text):
        replace(GRAPH, ops=ops, outputs=outputs).check()


@pytest.mark.parametrize(
    ("growth", "fields", "tokens", "entries"),
    [
        ("per-token", {}, 40, 40),
        ("window", {"span": 11}, 40, 11),
        ("window", {"span": 11}, 5, 5),
        ("pooled", {"every": 4}, 43, 10),
        ("per-sequence", {}, 40, 1),
    ],
    ids=["per-token", "window-full", "window-filling", "pooled", "per-sequence"],
)
def test_entries_of_a_cache(growth, fields, tokens, entries):
    parts = (("k", TensorSpec(dims=(2, 8))), ("v", TensorSpec(dims=(2, 4))))
    cache = CacheSpec(name="kv", growth=growth, parts=parts, **fields)
    assert cache.entries(tokens) == entries
    assert cache.elements == 24
