"""Families: closed attributes and slots, shapes, and costs in numbers."""

import pytest

from day0.ir.tensor import TensorSpec
from day0.registry.family import Context, Shapes
from day0.registry.index import NAMES, family


def spec(*dims: int | str, format: str = "bf16") -> TensorSpec:
    return TensorSpec(dims=dims, format=format)


def shapes(**fields) -> Shapes:
    return Shapes(**{"inputs": {}, "weights": {}, "caches": {}, "attrs": {}, **fields})


@pytest.mark.parametrize("name", NAMES)
def test_every_family_is_named_as_its_file(name):
    found = family(name)
    assert found.name == name
    assert found.what[0].islower() or found.what.startswith(("RMS", "x ", "W"))


def test_an_unknown_family_is_answered_with_the_known_ones():
    with pytest.raises(KeyError, match="gated_rmsnorm"):
        family("gated_rms")


@pytest.mark.parametrize(
    ("attrs", "text"),
    [
        ({"group": 64, "activation": "silu"}, "needs attribute 'eps'"),
        ({"eps": 1e-6, "group": 64, "activation": "tanh"}, "'sigmoid' or 'silu'"),
        ({"eps": 1e-6, "group": True, "activation": "silu"}, "group=True"),
        ({"eps": 1e-6, "group": 64, "activation": "silu", "colour": 1}, "no attribute 'colour'"),
    ],
    ids=["missing", "word", "bool-for-int", "unknown"],
)
def test_attributes_are_closed(attrs, text):
    with pytest.raises(ValueError, match=text):
        family("gated_rmsnorm").complete(attrs)


def test_slots_are_closed():
    linear = family("linear")
    linear.check_slots("weights", {"weight": 0, "bias": 0})
    with pytest.raises(ValueError, match="needs weights"):
        linear.check_slots("weights", {"bias": 0})
    with pytest.raises(ValueError, match="no inputs slot 'z'"):
        linear.check_slots("inputs", {"x": 0, "z": 0})
    family("concat").check_slots("inputs", {"x0": 0, "x1": 0})


def test_linear_refuses_a_width_that_does_not_fit():
    linear = family("linear")
    given = shapes(
        inputs={"x": spec("T", 8)}, weights={"weight": spec(3, 7)}, attrs=linear.complete({})
    )
    with pytest.raises(ValueError, match="x has 8 channels, the weight takes 7"):
        linear.infer(given)


def test_linear_costs_two_operations_an_element():
    linear = family("linear")
    given = shapes(
        inputs={"x": spec("T", 7)}, weights={"weight": spec(3, 7)}, attrs=linear.complete({})
    )
    assert linear.infer(given)["y"] == spec("T", 3)
    assert linear.flops(given, Context()) == 42


@pytest.mark.parametrize(("phase", "seen"), [("decode", 1000), ("prefill", 500.5)])
def test_causal_rows_see_all_or_half(phase, seen):
    assert Context(phase=phase, length=1000).seen == seen


def test_experts_touch_top_k_of_all():
    experts = family("experts")
    weights = {name: spec(16, 6, 10) for name in ("gate", "up", "down")}
    attrs = experts.complete({"function": "silu", "num_experts": 16, "top_k": 4})
    given = shapes(inputs={"x": spec("T", 10)}, weights=weights, attrs=attrs)
    assert experts.share(given, Context())["up"] == 0.25
    assert experts.flops(given, Context()) == 2 * 3 * 60 * 4


def test_a_window_bounds_what_attention_reads():
    gqa = family("gqa")
    attrs = gqa.complete(
        {"num_heads": 4, "num_kv_heads": 2, "head_dim": 8, "value_dim": 8, "scale": 1.0,
         "window": 128}
    )  # fmt: skip
    given = shapes(inputs={"q": spec("T", 32)}, attrs=attrs)
    assert gqa.entries(given, Context(length=4096)) == {"kv": 128}
    assert gqa.flops(given, Context(length=4096)) == 2 * 4 * 16 * 128
