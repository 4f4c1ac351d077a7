"""Keep, cast, quantise, dequantise, requantise: decided from expressions, without tensors."""

from dataclasses import replace

import pytest

from day0.checkpoint.load import load
from day0.ir import format as formats
from day0.ir.recipe import KEPT, RECIPES, Recipe
from day0.ir.tensor import TensorSpec
from day0.ir.weight import Cat, Expr, Leaf, Mul, Permute, Pick, Reshape, Stack, Weight, dims_of
from day0.models.read import read_model
from day0.passes.quantize import ACTIONS, Precision, Row, _weight, quantize

BLOCK = RECIPES["fp8"]


def leaf(*dims: int, stored: str = "fp8_b128", name: str = "w") -> Leaf:
    return Leaf(name=name, dims=dims, format=stored)


def decided(source: Expr, role: str = "experts", recipe: Recipe = BLOCK) -> Row:
    """The row of a weight; three dims, so that experts are matrices."""
    dims = dims_of(source)
    if len(dims) == 2:
        role = "dense" if role == "experts" else role
    first = source
    while not isinstance(first, Leaf):
        first = first.of[0] if isinstance(first, Cat) else getattr(first, "of", None) or first.left
    spec = TensorSpec(dims=dims, format=first.format)
    return _weight(Weight(name="w", spec=spec, role=role, source=source), recipe)


def rows(source: Expr, start: int, stop: int, period: int, dim: int = 0) -> Pick:
    return Pick(of=source, dim=dim, period=period, start=start, stop=stop)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (leaf(300, 200), ""),
        (leaf(300, 200, stored="fp8_b128_ue8m0"), ""),
        (Stack(of=leaf(300, 200, name="w.{e}"), count=4), ""),
        (rows(leaf(300, 200), 128, 300, 300), ""),
        (rows(leaf(300, 200), 0, 256, 300), ""),
        (rows(leaf(300, 200), 0, 150, 300), "cut at 150, off the borders of 128"),
        (rows(leaf(512, 200), 0, 128, 256), ""),
        (rows(leaf(384, 200), 64, 192, 192), "cut at 64, off the borders of 128"),
        (rows(leaf(300, 256), 0, 128, 256, dim=1), ""),
        (rows(leaf(300, 256), 0, 100, 256, dim=1), "cut at 100, off the borders of 128"),
        (Stack(of=rows(leaf(256, 200, name="w.{e}"), 0, 128, 256), count=3), ""),
        (Cat(of=(leaf(256, 200), leaf(100, 200))), ""),
        (Cat(of=(leaf(100, 200), leaf(256, 200))), "merged at 100, off the borders of 128"),
        (Permute(of=leaf(300, 200), order=(1, 0)), ""),
        (Permute(of=leaf(4, 3, 300, 200), order=(1, 0, 2, 3)), ""),
        (Permute(of=leaf(4, 300, 200), order=(1, 0, 2)), "turned"),
        (Reshape(of=leaf(4, 300, 200), dims=(2, 2, 300, 200)), ""),
        (Reshape(of=leaf(300, 200), dims=(600, 100)), "reshaped across its blocks"),
        (Mul(left=leaf(300, 200), right=leaf(300, 200)), "a product with another tensor"),
        (leaf(300, 200, stored="fp8_channel"), "stored as fp8_channel, dense runs as fp8_b128"),
        (leaf(4, 300, 200, stored="mxfp4"), "stored as mxfp4, experts runs as fp8_b128"),
        (Cat(of=(leaf(256, 200), leaf(8, 200, stored="mxfp8"))),
         "stored as mxfp8, dense runs as fp8_b128"),
    ],
)  # fmt: skip
def test_codes_are_kept_where_blocks_survive(source: Expr, why: str) -> None:
    row = decided(source)
    assert row.action == ("requantise" if why else "keep")
    assert row.why == (why or "stored so")
    assert row.runs == "fp8_b128"


def test_merging_tensors_with_a_scale_each() -> None:
    recipe = Recipe(name="t", formats={"dense": "fp8_tensor"})
    pair = Cat(of=(leaf(256, 200, stored="fp8_tensor"), leaf(256, 200, stored="fp8_tensor")))
    assert decided(pair, recipe=recipe).why == "merged from tensors with a scale each"
    assert decided(leaf(256, 200, stored="fp8_tensor"), recipe=recipe).action == "keep"


@pytest.mark.parametrize(
    ("stored", "role", "recipe", "action", "runs"),
    [
        ("bf16", "dense", "fp8", "quantise", "fp8_b128"),
        ("bf16", "dense", "bf16", "keep", "bf16"),
        ("fp32", "dense", "bf16", "cast", "bf16"),
        ("fp8_b128", "dense", "bf16", "dequantise", "bf16"),
        ("fp8_b128", "attention_proj", "fp8", "dequantise", "bf16"),
        ("fp8_b128", "index_q", "fp8", "keep", "fp8_b128"),
        ("bf16", "index_k", "fp8", "keep", "bf16"),
        ("bf16", "router", "fp8", "cast", "fp32"),
        ("fp8_b128", "router", "fp8", "dequantise", "fp32"),
        ("fp32", "state", "bf16", "keep", "fp32"),
    ],
)
def test_actions(stored: str, role: str, recipe: str, action: str, runs: str) -> None:
    row = decided(leaf(256, 256, stored=stored), role, RECIPES[recipe])
    assert (row.stored, row.action, row.runs) == (stored, action, runs)
    assert row.granularity == formats.get(runs).granularity


@pytest.fixture(scope="module")
def demo() -> dict[str, Precision]:
    model = read_model(load("demo")).model
    graph = model.graphs["main"]
    return {name: quantize(graph, model, recipe) for name, recipe in RECIPES.items()}


def test_every_use_has_one_row(demo: dict[str, Precision]) -> None:
    model = read_model(load("demo")).model
    graph = model.graphs["main"]
    for precision in demo.values():
        named = [row.name for row in precision.rows]
        assert len(named) == len(set(named))
        assert {row.name for row in precision.rows if row.kind == "weight"} == {
            name for op in graph.ops for _, name in op.weights
        }
        parts = {
            f"{use.cache}.{part}"
            for op in graph.ops
            for use in op.caches
            for part, _ in model.caches[use.cache].parts
        }
        assert {row.name for row in precision.rows if row.kind == "cache"} == parts
        assert {row.action for row in precision.rows} <= set(ACTIONS)
        assert all(row.why for row in precision.rows)


@pytest.mark.parametrize("name", ["fp32", "bf16"])
def test_plain_recipes_quantise_nothing(name: str, demo: dict[str, Precision]) -> None:
    assert demo[name].activations == {}
    assert {row.action for row in demo[name].rows} <= {"keep", "cast"}


def test_fp8_on_the_demo(demo: dict[str, Precision]) -> None:
    rows_of = demo["fp8"].rows
    narrow = {row.role for row in rows_of if row.kind == "weight" and "fp8" in row.runs}
    assert {"experts", "dense"} <= narrow <= {"experts", "dense", "shared_expert"}
    high = [row for row in rows_of if row.role in (*KEPT, "attention_proj", "head", "embedding")]
    assert high
    assert {row.runs for row in high} <= {"bf16", "fp32", "int64"}


def test_activations_follow_the_weights(demo: dict[str, Precision]) -> None:
    """Each FP8 product, and no other, takes rows of 1 x 128; experts round inside as well."""
    model = read_model(load("demo")).model
    precision = demo["fp8"]
    for op in model.graphs["main"].ops:
        found = {one.slot: one.format for one in precision.activations.get(op.id, ())}
        if op.family == "experts":
            assert found == {"x": "fp8_t128", "h": "fp8_t128"}
        elif op.family == "linear":
            runs = precision.weights[dict(op.weights)["weight"]].runs
            assert found == ({"x": "fp8_t128"} if runs == "fp8_b128" else {})
        elif op.family == "indexer":
            assert found == {"q": "mxfp8"}
        else:
            assert found == {}


@pytest.mark.parametrize(
    ("weights", "rows_in"),
    [("fp8_b64", "fp8_t64"), ("fp8_channel", "fp8_t{}"), ("fp8_tensor", "fp8_t{}"),
     ("mxfp8", "mxfp8")],
)  # fmt: skip
def test_other_weights_take_other_rows(weights: str, rows_in: str) -> None:
    model = read_model(load("demo")).model
    recipe = replace(RECIPES["bf16"], formats={"dense": weights})
    graph = model.graphs["main"]
    found = quantize(graph, model, recipe).activations
    dense = [op for op in graph.ops if op.id in found]
    assert dense
    for op in dense:
        (one,) = found[op.id]
        assert one.format == rows_in.format(model.weights[dict(op.weights)["weight"]].spec.dims[-1])
