"""Dense gated feed-forwards: activations as configs spell them, fused rows, biases."""

from typing import Any

import pytest

from day0.ir.weight import Pick
from tests.mechanisms import readings
from tests.mechanisms.small import llama, made_up


def shapes_of(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """What the config alone lets one expect."""
    return {leaf.name: leaf.dims for leaf, _, _ in readings.from_parts(config, None)._leaves()}


@pytest.mark.parametrize(
    ("word", "function"),
    [("silu", "silu"), ("swish", "silu"), ("gelu_pytorch_tanh", "gelu_tanh"), ("relu2", "relu2")],
)
def test_activation_words(word: str, function: str) -> None:
    got = readings.from_parts(llama(hidden_act=word), None)
    assert got.op("layers.0.ffn.act").attr("function") == function
    assert got.facts["ffn.function"].how == "config"


def test_unknown_activation_is_a_decisive_guess() -> None:
    got = readings.from_parts(llama(hidden_act="xielu"), None)
    fact = got.facts["ffn.function"]
    assert (fact.value, fact.how, fact.decisive) == ("silu", "assumed", True)


def test_bias_of_all_three() -> None:
    got = readings.from_parts(llama(mlp_bias=True), None)
    sizes = [
        got.model.weights[f"layers.0.ffn.{name}.bias"].spec.dims
        for name in ("gate_proj", "up_proj", "down_proj")
    ]
    assert sizes == [(20,), (20,), (12,)]


def test_fused_rows() -> None:
    config = llama()
    shapes = shapes_of(config)
    mlp = "model.layers.0.mlp."
    for name in ("gate_proj", "up_proj"):
        del shapes[f"{mlp}{name}.weight"]
    shapes[f"{mlp}gate_up_proj.weight"] = (40, 12)
    got = readings.from_parts(config, made_up(shapes))
    assert got.unexplained() == ([], [], [])
    gate = got.model.weights["layers.0.ffn.gate_proj"].source
    up = got.model.weights["layers.0.ffn.up_proj"].source
    assert isinstance(gate, Pick)
    assert isinstance(up, Pick)
    assert [(p.period, p.start, p.stop) for p in (gate, up)] == [(40, 0, 20), (40, 20, 40)]
