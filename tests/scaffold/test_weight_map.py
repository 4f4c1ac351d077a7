"""Patterns of stored tensors: parts of a quantised one, experts, a layer that differs, towers."""

from types import SimpleNamespace
from typing import Any

from day0.ir.graph import Group
from day0.ir.tensor import TensorSpec
from day0.ir.weight import Cat, Expr, Leaf, Mul, Pick, Stack, Weight
from day0.scaffold.weight_map import left_out, weight_map


def model(weights: dict[str, Expr], *tensors: str) -> Any:
    spec = TensorSpec(dims=(4, 4), format="bf16")
    made = {
        name: Weight(name=name, spec=spec, role="dense", source=source)
        for name, source in weights.items()
    }
    return SimpleNamespace(weights=made, groups=(Group(name="tower", role="t", tensors=tensors),))


def leaf(name: str, **options: Any) -> Leaf:
    return Leaf(name=name, dims=(4, 4), **options)


def test_parts_of_a_quantised_tensor() -> None:
    parts = (("data", "m.layers.3.q.weight"), ("scale", "m.layers.3.q.scale"))
    stored = leaf("m.layers.3.q.weight", format="fp8_b128", parts=parts)
    assert weight_map(model({"layers.3.q": stored})) == {
        "m.layers.{}.q.weight": (("layers.{0}.q", "data of fp8_b128"),),
        "m.layers.{}.q.scale": (("layers.{0}.q", "scale of fp8_b128"),),
    }


def test_experts_and_factors() -> None:
    up = Stack(of=Pick(of=leaf("m.layers.1.e.{e}.up"), dim=0, period=4, start=1, stop=3), count=8)
    mix = Mul(left=leaf("m.layers.1.g"), right=Cat(of=(leaf("m.layers.1.a"), leaf("m.layers.1.b"))))
    found = weight_map(model({"layers.1.up": up, "layers.1.mix": mix}))
    assert found["m.layers.{}.e.{}.up"] == (
        ("layers.{0}.up", "1:3 of every 4 along dim 0; one of 8 under a new first dim"),
    )
    assert found["m.layers.{}.g"] == (("layers.{0}.mix", "a factor"),)
    assert found["m.layers.{}.b"] == (("layers.{0}.mix", "part 2 of 2 along dim 0; a factor"),)


def test_a_layer_that_differs_keeps_its_number() -> None:
    weights: dict[str, Expr] = {f"layers.{n}.q": leaf(f"m.layers.{n}.q") for n in range(5)}
    weights["mtp.0.q"] = leaf("m.layers.5.q")
    made = model(weights, "tower.0.w", "tower.1.w", "m.layers.6.q")
    found = weight_map(made)
    assert found == {
        "m.layers.{}.q": (("layers.{0}.q", ""),),
        "m.layers.5.q": (("mtp.0.q", ""),),
    }
    assert left_out(made, found) == ("tower.{}.w", "m.layers.6.q")


def test_one_tensor_of_two_weights() -> None:
    made = model({"embed": leaf("m.embed"), "head": leaf("m.embed")})
    assert weight_map(made) == {"m.embed": (("embed", ""), ("head", ""))}
