"""Norms around sublayers: pre, post, and both in one model."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mechanisms import readings
from tests.mechanisms.small import llama, made_up
from tests.tiny import TinyCheckpoint, rename

Tiny = Callable[..., TinyCheckpoint]


@pytest.mark.hf
@pytest.mark.parametrize("headers", [True, False], ids=["headers", "config"])
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
def test_post_norm_attention_beside_pre_norm_linear(
    tiny: Tiny, tmp_path: Path, known: bool, headers: bool
) -> None:
    checkpoint = tiny("olmo_hybrid")
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    got = readings.from_folder(folder, headers=headers)
    for layer, mixer in zip(got.reading.spec.layers, got.mixers(), strict=True):
        for sublayer in layer.sublayers:
            assert (sublayer.norm_in is None) == (mixer == "gqa")
            assert (sublayer.norm_out is None) == (mixer == "gdn")
    layer = got.mixers().index("gqa")
    norm = got.op(f"layers.{layer}.mixer.norm_out")
    add = got.op(f"layers.{layer}.mixer.residual")
    assert dict(norm.inputs)["x"] == f"layers.{layer}.mixer.o_proj"
    assert dict(add.inputs) == {"a": f"layers.{layer - 1}.ffn.residual", "b": norm.id}


def test_norms_after_each_branch() -> None:
    """OLMo-2's names."""
    config = llama()
    shapes = {leaf.name: leaf.dims for leaf, _, _ in readings.from_parts(config, None)._leaves()}
    del shapes["model.layers.0.input_layernorm.weight"]
    shapes["model.layers.0.post_feedforward_layernorm.weight"] = (12,)
    got = readings.from_parts(config, made_up(shapes))
    assert got.unexplained() == ([], [], [])
    assert got.facts["norm.arrangement.all"].value == "post"
    assert [op.id for op in got.ops("rmsnorm")] == [
        "layers.0.mixer.norm_out", "layers.0.ffn.norm_out", "norm",
    ]  # fmt: skip


def test_sandwich() -> None:
    config = llama()
    shapes = {leaf.name: leaf.dims for leaf, _, _ in readings.from_parts(config, None)._leaves()}
    for name in ("pre", "post"):
        shapes[f"model.layers.0.{name}_feedforward_layernorm.weight"] = (12,)
    got = readings.from_parts(config, made_up(shapes))
    assert got.unexplained() == ([], [], [])
    assert len(got.ops("rmsnorm")) == 5


def test_layer_norm_by_its_bias() -> None:
    config = llama()
    shapes = {leaf.name: leaf.dims for leaf, _, _ in readings.from_parts(config, None)._leaves()}
    shapes["model.layers.0.input_layernorm.bias"] = (12,)
    got = readings.from_parts(config, made_up(shapes))
    assert got.unexplained() == ([], [], [])
    assert got.op("layers.0.mixer.norm").family == "layernorm"


def test_an_unknown_type_is_assumed_plain() -> None:
    got = readings.from_parts(llama(model_type="unheard_of"), None)
    fact = got.facts["norm.zero_centered"]
    assert (fact.value, fact.how, fact.decisive) == (False, "assumed", False)
    assert readings.from_parts(llama(), None).facts["norm.zero_centered"].how == "known"
