"""The shard pass: what every rank gets, and what it refuses. No process but this one."""

from collections.abc import Mapping
from typing import Any

import pytest

from day0.analysis.lowering import lowered_for
from day0.analysis.sharded import sharded
from day0.catalog.entry import entry_called, model_of
from day0.checkpoint.load import load
from day0.errors import Day0Error
from day0.ir.graph import Model
from day0.ir.weight import Leaf, Pick, Stack, Weight, dims_of
from day0.models.read import read_model
from day0.models.recipes import recipe_called
from day0.parallel.mesh import parse
from day0.passes.cut_weight import cut_weight
from day0.passes.lower import Lowered
from day0.passes.shard import Place, shard
from day0.passes.state import State
from day0.registry.index import family

HOPPER = (9, 0)
EXPERTS = "layers.1.ffn.gate"
BF16 = recipe_called("bf16")


@pytest.fixture(scope="module")
def demo() -> Model:
    return read_model(load("demo")).model


def on_every_rank(model: Model, mesh: str, **how: Any) -> list[dict[str, Lowered]]:
    shape = parse(mesh)
    return [
        lowered_for(model, BF16, HOPPER, Place(mesh=shape, rank=rank, **how))
        for rank in range(shape.size)
    ]


def collectives(low: Lowered) -> list[tuple[str, str]]:
    return [(op.id, op.family) for op in low.graph.ops if family(op.family).sends is not None]


@pytest.mark.parametrize(("mesh", "how"), [
    ("tp2", {}), ("tp4ep2", {}), ("tp4ep4", {"exchange": True, "chunks": 2}),
])  # fmt: skip
def test_all_ranks_have_the_same_collectives(
    demo: Model, mesh: str, how: Mapping[str, Any]
) -> None:
    ranks = on_every_rank(demo, mesh, **how)
    for phase in ("prefill", "decode"):
        first = collectives(ranks[0][phase])
        assert {name for _, name in first} >= {"all_reduce", "all_gather"}
        assert all(collectives(low[phase]) == first for low in ranks[1:])


def test_one_sum_for_attention_and_one_for_the_feed_forward(demo: Model) -> None:
    graph = on_every_rank(demo, "tp2")[0]["decode"].graph
    sums = [op.layer for op in graph.ops if op.family == "all_reduce"]
    # the shared expert's part joins the routed ones' before the sum; the embedding has its own
    assert sums == [0, *(layer for layer in range(8) for _ in range(2))]


def test_what_ranks_hold_together_is_the_model(demo: Model) -> None:
    """Every weight and cache is on both ranks whole, or cut along one dim without a gap."""
    state = State(
        graph=demo.graphs["main"], weights=demo.weights, caches=demo.caches, recipe=BF16,
        phase="prefill",
    )  # fmt: skip
    one, other = (shard(state, Place(mesh=parse("tp2"), rank=rank))[0] for rank in (0, 1))
    cut = 0
    for name in {name for op in state.graph.ops for _, name in op.weights}:
        whole = demo.weights[name].spec.dims
        mine, theirs = one.weights[name].spec.dims, other.weights[name].spec.dims
        if mine == theirs == whole:
            continue
        (dim,) = (n for n, size in enumerate(whole) if mine[n] != size)
        assert sum(int(share[dim]) for share in (mine, theirs)) == whole[dim], name
        cut += 1
    assert cut > len(demo.weights) // 2
    for name in {use.cache for op in state.graph.ops for use in op.caches}:
        elements = [graph.caches[name].elements for graph in (state, one, other)]
        assert elements[1:] in ([elements[0]] * 2, [elements[0] // 2] * 2), name


def test_experts_are_dealt_out_and_cut(demo: Model) -> None:
    """Four ranks, two groups of experts, each expert cut by two."""
    count, inner, width = (int(size) for size in demo.weights[EXPERTS].spec.dims)
    spans = []
    for low in on_every_rank(demo, "tp4ep2"):
        op = next(o for o in low["prefill"].graph.ops if o.family == "experts")
        weight = low["prefill"].weights[dict(op.weights)["gate"]]
        assert weight.spec.dims == (count // 2, inner // 2, width)
        assert op.attr("num_experts") == count // 2
        assert isinstance(weight.source, Stack)
        assert isinstance(weight.source.of, Pick)
        spans.append((weight.source.first, weight.source.of.start))
    half = inner // 2
    assert spans == [(0, 0), (0, half), (count // 2, 0), (count // 2, half)]


def test_bytes_are_those_of_the_formula(demo: Model) -> None:
    """17 sums of rows of 256 channels in bf16, 2 (n-1)/n of each sent."""
    found = sharded(demo, BF16, HOPPER, parse("tp4"))
    hidden = demo.spec.shape.hidden_size
    decode = {one.collective: one for one in found.sent if one.phase == "decode"}
    assert decode["all_reduce"].token_bytes == 17 * 2 * 3 / 4 * hidden * 2
    vocab = demo.spec.vocab_size
    # the logits' last rank has the largest share
    assert decode["all_gather"].sequence_bytes == 3 * (vocab // 4) * 2
    assert found.held.token_bytes == found.held.whole_token_bytes  # latents are every head's


def test_dispatched_rows_are_counted_once_per_rank_they_reach(demo: Model) -> None:
    low = on_every_rank(demo, "tp2ep2", exchange=True)[0]["prefill"]
    sent = [op for op in low.graph.ops if op.family == "dispatch"]
    assert len(sent) == 7
    op = sent[0]
    top_k, hidden = low.graph.values[dict(op.inputs)["experts"]].width, demo.spec.shape.hidden_size
    row = 2 * hidden + 8 * top_k
    sends = family("dispatch").sends
    assert sends is not None
    # half the rows are this rank's, and one row needs the other rank unless all k miss it
    assert sends(low.shapes(op, BF16)) == pytest.approx((1 - 0.5**top_k) * row / 2)


@pytest.mark.parametrize(
    ("mesh", "code", "told"),
    [
        ("tp3", 3, "4 heads / 3 = 1.33333, not whole"),
        ("pp2", 4, "2 pipeline stages"),
        ("cp2", 4, "splits the sequence"),
    ],
)
def test_an_illegal_split_is_refused_with_its_reason(
    demo: Model, mesh: str, code: int, told: str
) -> None:
    with pytest.raises(Day0Error) as caught:
        on_every_rank(demo, mesh)
    assert caught.value.exit_code == code
    assert told in caught.value.message
    assert mesh in caught.value.message


def test_experts_without_experts_are_refused() -> None:
    dense = model_of(entry_called("meta-llama--llama-3.1-8b-instruct"), {})
    with pytest.raises(Day0Error, match="no routed experts"):
        on_every_rank(dense, "tp2ep2")


def test_a_cut_goes_down_to_the_stored_tensor() -> None:
    """Rows of one head in two of a fused matrix, half of the heads: two picks, no more read."""
    leaf = Leaf(name="w", dims=(24, 5))
    fused = Pick(of=leaf, dim=0, period=6, start=0, stop=4)
    weight = Weight(name="w", spec=_spec(dims_of(fused)), role="attention_proj", source=fused)
    cut = cut_weight(weight, 0, (8, 16))
    assert cut.spec.dims == (8, 5)
    assert cut.source == Pick(of=fused, dim=0, period=16, start=8, stop=16)


def _spec(dims: tuple[int, ...]) -> Any:
    from day0.ir.tensor import TensorSpec

    return TensorSpec(dims=dims)
