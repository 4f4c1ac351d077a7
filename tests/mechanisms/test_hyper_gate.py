"""Gated hyper-connections: norms live in the gates, streams are never mixed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mechanisms import readings
from tests.tiny import TinyCheckpoint, rename

pytestmark = pytest.mark.hf
Tiny = Callable[..., TinyCheckpoint]


@pytest.mark.parametrize("headers", [True, False], ids=["headers", "config"])
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
def test_spec(tiny: Tiny, tmp_path: Path, headers: bool, known: bool) -> None:
    checkpoint = tiny("qwen4_exp")
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder, headers=headers)
    assert (got.assumed(), got.unread()) == ({}, ())
    assert got.params() == readings.from_folder(checkpoint.folder).params()
    assert got.reading.spec.norm is None
    with_ngrams = {number - 1 for number in config["ple_layer_ids"]}
    for index, layer in enumerate(got.reading.spec.layers):
        for sublayer in layer.sublayers:
            spec = sublayer.residual.spec
            assert (spec.num_streams, spec.rank) == (config["hc_count"], config["hc_lowrank"])
            assert (spec.eps, spec.zero_centered) == (config["rms_norm_eps"], True)
            assert (sublayer.norm_in, sublayer.norm_out) == (None, None)
            has_ngrams = sublayer.name == "mixer" and index in with_ngrams
            assert (spec.ngram is not None) == has_ngrams


@pytest.mark.parametrize("kind", ["qwen4_exp", "qwen4_exp_composite"])
def test_every_tensor_is_explained(tiny: Tiny, kind: str) -> None:
    got = readings.from_folder(tiny(kind).folder)
    assert got.unexplained("model.visual.") == ([], [], [])


def test_flow(tiny: Tiny) -> None:
    checkpoint = tiny("qwen4_exp")
    config = readings.config_of(checkpoint.folder)
    got = readings.from_folder(checkpoint.folder)
    m, hidden, layers = config["hc_count"], config["hidden_size"], config["num_hidden_layers"]
    gates, writes = got.ops("hyper_gate"), got.ops("hyper_write")
    assert (len(gates), len(writes)) == (2 * layers + 1, 2 * layers)
    for gate, write in zip(gates, writes, strict=False):
        assert dict(write.inputs)["post"] == f"{gate.id}.post"
        assert "mix" not in dict(write.inputs)
        assert dict(gate.inputs)["x"] == dict(write.inputs)["x"]
        assert dict(gate.attrs)["zero_centered"] is True
        dims = {slot: got.model.weights[name].spec.dims for slot, name in gate.weights}
        assert dims == {
            "norm": (m * hidden,),
            "down": (config["hc_lowrank"], m * hidden),
            "up": (m * hidden, config["hc_lowrank"]),
            "inject": (m, m * hidden),
        }
    last = gates[-1]
    assert "inject" not in dict(last.weights)
    assert dict(last.inputs)["x"] == writes[-1].id
    # nothing norms the result: the head reads it
    assert dict(got.ops("take_rows")[0].inputs)["x"] == last.id
