"""Merged products and convolutions, and fused ops: what they are made of."""

from dataclasses import replace

import pytest

from day0.checkpoint.load import load
from day0.ir.graph import Model
from day0.ir.recipe import RECIPES
from day0.ir.weight import Cat, dims_of
from day0.models.read import read_model
from day0.passes.fuse import fuse
from day0.passes.layout import layout
from day0.passes.state import State


@pytest.fixture(scope="module")
def demo() -> Model:
    return read_model(load("demo")).model


def state_of(model: Model, phase: str, recipe: str = "bf16") -> State:
    main = model.graphs["main"]
    return State(
        graph=replace(main, outputs=main.outputs[:1]),
        weights=model.weights,
        caches=model.caches,
        recipe=RECIPES[recipe],
        phase=phase,
    )


def test_every_merged_product_has_the_rows_of_its_parts(demo: Model) -> None:
    before = state_of(demo, "prefill")
    after, changed = layout(before)
    after.graph.check()
    merged = [op for op in after.graph.ops if op.family == "merged_linear"]
    assert {op.id for op in merged} <= set(changed)
    for op in merged:
        weight = after.weights[op.weights[0][1]]
        assert isinstance(weight.source, Cat)
        assert dims_of(weight.source) == weight.spec.dims
        widths = op.attr("widths")
        assert sum(widths) == weight.spec.dims[0]
        assert [after.graph.values[value].width for _, value in op.outputs] == list(widths)
        parts = [before.weights[part.weights[0][1]] for part in op.parts]
        assert weight.source.of == tuple(part.source for part in parts)
        assert {part.inputs for part in op.parts} == {op.inputs}
    alone = sum(op.family == "linear" for op in before.graph.ops)
    left = sum(op.family == "linear" for op in after.graph.ops)
    assert alone == left + sum(len(op.parts) for op in merged)


def test_both_phases_share_weights_and_caches(demo: Model) -> None:
    one, other = (layout(state_of(demo, phase))[0] for phase in ("prefill", "decode"))
    assert one.weights == other.weights
    assert one.caches == other.caches
    assert one.graph == other.graph


def test_convolutions_side_by_side_are_one(demo: Model) -> None:
    after, _ = layout(state_of(demo, "prefill"))
    merged = [op for op in after.graph.ops if op.family == "merged_short_conv"]
    assert len(merged) == sum(op.family == "kda" for op in after.graph.ops) > 0
    for op in merged:
        tail = after.caches[op.caches[0].cache]
        own = [demo.caches[part.caches[0].cache] for part in op.parts]
        assert tail.elements == sum(cache.elements for cache in own)
        assert {(c.span, c.growth, c.slotted) for c in own} == {
            (tail.span, tail.growth, tail.slotted)
        }
        assert after.graph.values[op.inputs[0][1]].width == tail.elements


@pytest.mark.parametrize("block", [32, 128, 256])
def test_narrow_formats_are_merged_on_borders_alone(demo: Model, block: int) -> None:
    """No block of a merged weight has rows of two matrices, and what could be merged is."""
    formats = {**RECIPES["fp8"].formats, "dense": f"fp8_b{block}", "shared_expert": f"fp8_b{block}"}
    recipe = replace(RECIPES["fp8"], formats=formats)
    before = replace(state_of(demo, "prefill"), recipe=recipe)
    after, _ = layout(before)
    merged = {}
    for op in after.graph.ops:
        runs = {recipe.weight(demo.weights[p.weights[0][1]]) for p in op.parts if p.weights}
        if op.family == "merged_linear" and f"fp8_b{block}" in runs:
            assert {recipe.weight(after.weights[op.weights[0][1]])} == runs
            merged[op.id] = op.attr("widths")
    users = before.graph.users()
    pairs = {}
    for glu in (op for op in before.graph.ops if op.family == "glu"):
        makers = [before.graph.producers()[value] for _, value in glu.inputs]
        if len(users[glu.inputs[0][1]]) == 1:
            widths = tuple(before.graph.values[op.outputs[0][1]].width for op in makers)
            pairs["+".join(op.id for op in makers)] = widths
    assert len(pairs) == 8
    on = {name: widths for name, widths in pairs.items() if widths[0] % block == 0}
    assert merged == on
    assert 0 < len(on) <= len(pairs)
    assert (len(on) < len(pairs)) == (block > 32)


@pytest.mark.parametrize(("phase", "steps"), [("prefill", 0), ("decode", 6)])
def test_a_kda_step_is_one_op_in_decode_alone(demo: Model, phase: str, steps: int) -> None:
    merged, _ = layout(state_of(demo, phase))
    after, changed = fuse(merged)
    after.graph.check()
    found = [op for op in after.graph.ops if op.family == "kda_step"]
    assert len(found) == steps
    assert {op.id for op in found} <= set(changed)
    for op in found:
        assert [part.family for part in op.parts] == ["merged_short_conv", "kda", "gated_rmsnorm"]
        assert [use.slot for use in op.caches] == ["tail", "state"]
    assert after.weights == merged.weights
    assert after.caches == merged.caches


def test_a_value_that_somebody_else_reads_stays(demo: Model) -> None:
    """An output of the graph inside a step keeps its op."""
    state, _ = layout(state_of(demo, "decode"))
    kda = next(op for op in state.graph.ops if op.family == "kda")
    tapped = replace(state.graph, outputs=(*state.graph.outputs, kda.outputs[0][1]))
    after, _ = fuse(replace(state, graph=tapped))
    after.graph.check()
    assert kda in after.graph.ops
