"""Every tensor lost from a checkpoint is told: none is taken for a model that never had it."""

import random
from typing import Any

import pytest

from day0.analysis.analyze import Analysis, of_checkpoint
from tests.analysis import hostile
from tests.field_cases.asking import small, wanted

BIASED = {"model_type": "qwen2", "num_hidden_layers": 8, "use_sliding_window": False}


def analysed(config: dict[str, Any], tensors: dict[str, Any]) -> Analysis:
    return of_checkpoint(hostile.checkpoint(config, hostile.headers(tensors)))


def codes(analysis: Analysis) -> list[str]:
    return [item.code for item in analysis.findings if item.severity != "info"]


@pytest.mark.parametrize("lost", ["q_proj", "k_proj", "v_proj", "o_proj"])
def test_a_layer_without_one_of_its_projections_is_no_new_kind_of_layer(
    lost: str, seed: int
) -> None:
    config = small(num_hidden_layers=4)
    tensors = wanted(config)
    assert codes(analysed(config, tensors)) == []
    name = f"model.layers.{random.Random(seed).randrange(4)}.self_attn.{lost}.weight"
    del tensors[name]
    after = analysed(config, tensors)
    assert after.proof.missing == (name,)
    assert codes(after) == ["missing_tensor"]
    assert {layer.sublayers[0].branches[0].stem for layer in after.spec.layers} == {"gqa"}


def test_a_layer_of_strange_tensors_is_new_and_not_proved() -> None:
    config = small(num_hidden_layers=4, model_type="new")
    tensors = {
        name: entry
        for name, entry in wanted(config).items()
        if not name.startswith("model.layers.2.self_attn.")
    }
    tensors["model.layers.2.self_attn.in_proj.weight"] = ("BF16", (77, 24))
    after = analysed(config, tensors)
    assert after.proof.status == "incomplete"
    assert after.proof.unexplained_bytes == 77 * 24 * 2
    assert after.proof.unexpected == ("model.layers.2.self_attn.in_proj.weight",)
    assert "unexpected_tensor" in codes(after)
    (entry,) = [entry for entry in after.entries if entry.family == "unknown"]
    assert (entry.verdict.status, entry.layers, entry.params) == ("new", (2,), 77 * 24)


def test_an_optional_tensor_that_one_layer_of_many_lacks_is_told(seed: int) -> None:
    config = small(**BIASED)
    tensors = wanted(config)
    for layer in range(8):
        tensors[f"model.layers.{layer}.self_attn.o_proj.bias"] = ("BF16", (24,))
    assert codes(analysed(config, tensors)) == []
    name = f"model.layers.{random.Random(seed).randrange(8)}.self_attn.o_proj.bias"
    del tensors[name]
    (finding,) = [f for f in analysed(config, tensors).findings if f.code == "uneven_layers"]
    assert (finding.severity, finding.evidence) == ("warning", (name,))


def test_an_optional_tensor_of_half_the_layers_is_a_pattern() -> None:
    config = small(**BIASED)
    tensors = wanted(config)
    for layer in range(0, 8, 2):
        tensors[f"model.layers.{layer}.self_attn.o_proj.bias"] = ("BF16", (24,))
    assert codes(analysed(config, tensors)) == []
