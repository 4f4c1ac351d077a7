"""Residual mixes of a block read the stored blocks together, and results stay the same."""

from dataclasses import replace

import pytest

from day0.analysis.analyze import analyze
from day0.ir.graph import Graph
from day0.ir.op import Op
from day0.ir.recipe import RECIPES
from day0.passes.fuse import fuse
from day0.passes.state import State
from day0.passes.two_phase import two_phase


def state_of(model: str, phase: str) -> State:
    read = analyze(model).model
    graph = replace(read.graphs["main"], outputs=read.graphs["main"].outputs[:1])
    return State(
        graph=graph, weights=read.weights, caches=read.caches, recipe=RECIPES["bf16"], phase=phase
    )


def of(graph: Graph, family: str) -> list[Op]:
    return [op for op in graph.ops if op.family == family]


@pytest.mark.parametrize("model", ["demo", "catalog:moonshotai--kimi-k3"])
def test_every_query_is_asked_once(model: str) -> None:
    before = state_of(model, "decode")
    mixes = {op.id: op for op in of(before.graph, "attn_residual")}
    after, changed = two_phase(before)
    after.graph.check()
    merges, blocks = of(after.graph, "attn_residual_merge"), of(after.graph, "attn_residual_blocks")
    assert set(changed) == {op.id for op in (*merges, *blocks)}
    assert len(of(after.graph, "attn_residual")) + len(merges) == len(mixes)
    by_value = {op.outputs[0][1]: op for op in blocks}
    asked = [query for op in blocks for _, query in op.weights]
    assert sorted(asked) == sorted(op.weights[0][1] for op in merges)
    for merge in merges:
        mix, named = mixes[merge.id], dict(merge.inputs)
        phase_1 = by_value[named["mixed"]]
        assert phase_1.weights[merge.attr("number")][1] == mix.weights[0][1]
        assert [value for _, value in (*phase_1.inputs, ("x", named["x"]))] == [
            value for _, value in mix.inputs
        ]
    # what stays in one pass stands behind one stored block or none
    assert all(len(op.inputs) <= 2 for op in of(after.graph, "attn_residual"))


def test_kimi_k3_reads_every_stored_block_once_a_block() -> None:
    """93 layers in blocks of 12 (24 mixes): the last block's phase 1 serves all mixes behind it."""
    after, _ = two_phase(state_of("catalog:moonshotai--kimi-k3", "decode"))
    shape = [(len(op.inputs), len(op.weights)) for op in of(after.graph, "attn_residual_blocks")]
    assert [sources for sources, _ in shape] == list(range(2, 2 + len(shape)))
    assert {queries for _, queries in shape[:-1]} == {24}
    one_pass = sum(sources + 1 for sources, queries in shape for _ in range(queries))
    two = sum(sources + queries for sources, queries in shape)  # reads, and rows written
    two += sum(2 * queries for _, queries in shape)  # phase 2: what was mixed, and the sum
    assert two < 0.55 * one_pass


def test_a_sum_and_a_norm_go_into_phase_2() -> None:
    state, _ = two_phase(state_of("demo", "decode"))
    fused = fuse(state)[0].graph
    fused.check()
    merges = of(fused, "attn_residual_merge")
    kinds = {tuple(part.family for part in op.parts) for op in merges}
    assert ("add", "attn_residual_merge", "rmsnorm") in kinds
    assert all("rmsnorm" in [part.family for part in op.parts] for op in merges)
    for op in merges:
        parts = {part.family: part for part in op.parts}
        assert op.attr("norm_eps") == parts["rmsnorm"].attr("eps")
        assert dict(op.outputs)["y"] == parts["rmsnorm"].outputs[0][1]
        if "add" in parts:
            assert dict(op.outputs)["residual_out"] == parts["add"].outputs[0][1]


def test_prefill_stays_in_one_pass() -> None:
    state = state_of("demo", "prefill")
    assert two_phase(state) == (state, ())
