"""Rows become FP8 once, inside what makes them wherever that can be, and results stay the same."""

from pathlib import Path

import pytest

from day0.checkpoint.load import DEMO, load
from day0.ir.graph import Model
from day0.ir.op import Op
from day0.models.read import read_model
from day0.models.recipes import recipe_of
from day0.passes.lower import Lowered

pytest.importorskip("torch")

from tests import fake_gpu  # noqa: E402

ONLY_FP8 = recipe_of({"base": "fp8", "plain": "fp32"}, name="only", where="a test")
IDS = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3)
FAMILIES = ("quant", "rmsnorm_quant", "glu_quant")


@pytest.fixture(scope="module")
def demo() -> Model:
    return read_model(load(str(DEMO))).model


@pytest.fixture(scope="module", params=["prefill", "decode"])
def low(demo: Model, request: pytest.FixtureRequest) -> Lowered:
    return fake_gpu.lowered(demo, ONLY_FP8)[request.param]


def narrow_products(low: Lowered) -> list[Op]:
    return [
        op for op in low.graph.ops
        if op.family in ("linear", "merged_linear", "experts")
        and any(name in low.held.weights for _, name in op.weights)
    ]  # fmt: skip


def test_every_fp8_product_reads_fp8_rows(low: Lowered) -> None:
    products = narrow_products(low)
    assert len(products) > 20
    makers = low.graph.producers()
    for op in products:
        named = dict(op.inputs)
        assert low.graph.values[named["x"]].format == "fp8_e4m3"
        assert low.graph.values[named["x_scale"]].format == "fp32"
        maker = makers[named["x"]]
        assert maker.family in FAMILIES
        assert named["x_scale"] in {value for _, value in maker.outputs}
        rows, width = low.graph.values[named["x"]].dims
        assert isinstance(width, int)
        assert low.graph.values[named["x_scale"]].dims == (rows, -(-width // 128))
    kinds = {low.choices[op.id].backend for op in low.graph.ops if op.family in FAMILIES}
    assert kinds == {"triton"}


def test_no_launch_of_its_own_where_a_norm_or_activation_makes_the_rows(low: Lowered) -> None:
    makers = low.graph.producers()
    alone = [op for op in low.graph.ops if op.family == "quant"]
    for op in alone:
        assert makers[op.inputs[0][1]].family not in ("rmsnorm", "add_rmsnorm", "glu")
    fused = [op for op in low.graph.ops if op.family in FAMILIES[1:]]
    assert {op.family for op in fused} == set(FAMILIES[1:])
    for op in fused:
        assert [part.family for part in op.parts][1:] == ["quant"]
    read = [value for op in low.graph.ops for _, value in op.inputs]
    # a router reads the norm itself: it is written beside the codes, and nowhere else
    for op in (op for op in fused if op.family == "rmsnorm_quant"):
        assert ("y" in dict(op.outputs)) == (op.parts[0].outputs[0][1] in read)


def test_rows_are_quantised_once(low: Lowered) -> None:
    sources = [value for op in low.graph.ops if op.family == "quant" for _, value in op.inputs]
    sources += [
        op.parts[0].outputs[0][1] for op in low.graph.ops if op.family in FAMILIES[1:]
    ]  # fmt: skip
    assert len(sources) == len(set(sources))


def test_nothing_of_it_without_kernels(demo: Model) -> None:
    from day0.passes.lower import Target, lower
    from day0_kernels.index import REFERENCES

    target = Target(backend="reference", recipe=ONLY_FP8, references=REFERENCES)
    for one in lower(demo, target).values():
        assert not {op.family for op in one.graph.ops} & set(FAMILIES)
        assert one.changed["quantise_rows"] == ()


def test_the_pass_changes_no_result(demo: Model) -> None:
    """In fp32 a row is not rounded on its way to the scales: on as off."""
    headers, folder = load(str(DEMO)).headers, Path(DEMO)
    on, off = (
        fake_gpu.opened(demo, ONLY_FP8, headers=headers, folder=folder, without=without)
        for without in ((), ("quantise_rows",))
    )
    assert on.lowered["decode"].changed["quantise_rows"]
    ours, theirs = on.logits(IDS), off.logits(IDS)
    assert bool(theirs.isfinite().all())
    apart = (ours - theirs).norm(dim=-1) / theirs.norm(dim=-1)
    assert float(apart[0]) < 1e-4
    assert float(apart.max()) < 0.1  # from a code on that rounding decides, see test_held_caches
