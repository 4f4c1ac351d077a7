"""Fewer rows: which ops have them, and that the graph stays one."""

from dataclasses import replace

import pytest

from day0.checkpoint.load import load
from day0.ir.graph import Graph
from day0.ir.recipe import RECIPES
from day0.models.read import read_model
from day0.passes.narrow import narrow
from day0.passes.state import State
from day0.registry.index import NAMES, family


@pytest.fixture(scope="module")
def demo() -> Graph:
    main = read_model(load("demo")).model.graphs["main"]
    return replace(main, outputs=main.outputs[:1])  # without what its draft taps


def narrowed(graph: Graph, phase: str) -> tuple[Graph, tuple[str, ...]]:
    """`narrow` looks at nothing but the graph and the phase."""
    state = State(graph=graph, weights={}, caches={}, recipe=RECIPES["bf16"], phase=phase)
    state, changed = narrow(state)
    return state.graph, changed


def test_what_follows_the_last_mixing_of_rows_has_the_last_rows(demo: Graph) -> None:
    graph, fewer = narrowed(demo, "prefill")
    graph.check()
    mixing = [op for op in demo.ops if not family(op.family).rowwise and op.family != "take_rows"]
    behind = demo.ops[demo.ops.index(mixing[-1]) + 1 :]
    after = {op.id for op in behind if op.family != "take_rows"}
    head = demo.producers()[demo.outputs[0]].id
    assert set(fewer) <= after | {op.id for op in demo.ops if op.layer == mixing[-1].layer}
    assert after - {head} <= set(fewer)
    by_id = {op.id: op for op in graph.ops}
    for name in (*fewer, head):
        assert {graph.values[value].dims[0] for _, value in by_id[name].outputs} == {"R"}
        assert {graph.values[value].dims[0] for _, value in by_id[name].inputs} == {"R"}
    takes = [op for op in graph.ops if op.family == "take_rows"]
    assert len({op.inputs[0][1] for op in takes}) == len(takes) >= 1
    untouched = [op for op in demo.ops if op.id not in fewer and op.family != "take_rows"]
    assert [op for op in graph.ops if op.id not in fewer and op.family != "take_rows"] == untouched
    assert graph.outputs == demo.outputs
    assert set(graph.values) == {
        *graph.inputs, *(value for op in graph.ops for _, value in op.outputs)
    }  # fmt: skip


def test_decode_takes_nothing(demo: Graph) -> None:
    graph, removed = narrowed(demo, "decode")
    graph.check()
    assert removed == tuple(op.id for op in demo.ops if op.family == "take_rows")
    assert not [op for op in graph.ops if op.family == "take_rows"]
    taken = next(op for op in demo.ops if op.family == "take_rows").outputs[0][1]
    assert graph.producers()[taken].id == demo.producers()[demo_input(demo)].id
    assert graph.values[taken].dims[0] == "T"


def demo_input(graph: Graph) -> str:
    return next(op for op in graph.ops if op.family == "take_rows").inputs[0][1]


def test_nothing_is_taken_from_an_output(demo: Graph) -> None:
    """A tap that a draft asks for has all its rows."""
    tapped = demo_input(demo)
    asked = replace(demo, outputs=(*demo.outputs, tapped))
    graph, fewer = narrowed(asked, "prefill")
    graph.check()
    assert graph.values[tapped].dims[0] == "T"
    assert demo.producers()[tapped].id not in fewer
    graph, _ = narrowed(asked, "decode")
    graph.check()
    assert tapped in {value for op in graph.ops for _, value in op.outputs}


@pytest.mark.parametrize("name", [name for name in NAMES if family(name).rowwise])
def test_row_wise_families_have_no_cache(name: str) -> None:
    """And their definitions ask nothing of the Step (tests/runtime/test_impls.py)."""
    assert family(name).caches == ()
