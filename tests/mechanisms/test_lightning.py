"""Lightning attention: rows per head, the decay of a layer, the stored tables."""

from collections.abc import Callable
from pathlib import Path

import pytest

from day0.ir.weight import Pick
from tests.mechanisms import readings
from tests.tiny import TinyCheckpoint, cache_bytes, rename

Tiny = Callable[..., TinyCheckpoint]


@pytest.mark.hf
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
def test_spec(tiny: Tiny, tmp_path: Path, known: bool) -> None:
    checkpoint = tiny("minimax")
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder)
    num_layers = config["num_hidden_layers"]
    for index, mixer in enumerate(got.mixers()):
        if mixer != "lightning":
            continue
        spec = got.mixer(index)
        assert (spec.num_heads, spec.head_dim) == (
            config["num_attention_heads"], config["head_dim"],
        )  # fmt: skip
        assert spec.norm_eps == 1e-6
        assert spec.slope_scale == pytest.approx(
            1 - index / (num_layers - 1 + 1e-5) + 1e-5, abs=1e-12
        )
        d = spec.head_dim
        for name, start in (("q", 0), ("k", d), ("v", 2 * d)):
            source = got.model.weights[f"layers.{index}.mixer.{name}_proj"].source
            assert isinstance(source, Pick)
            assert (source.period, source.start, source.stop) == (3 * d, start, start + d)
            assert got.op(f"layers.{index}.mixer.{name}_act").attr("function") == "silu"
        gate = got.op(f"layers.{index}.mixer.o_norm")
        assert (gate.attr("group"), gate.attr("activation")) == (spec.num_heads * d, "sigmoid")
        assert gate.attr("eps") == 1e-6


@pytest.mark.hf
def test_state_and_tables(tiny: Tiny) -> None:
    checkpoint = tiny("minimax")
    got = readings.from_folder(checkpoint.folder)
    for index, groups in enumerate(cache_bytes(checkpoint, 20)):
        if got.mixers()[index] != "lightning":
            continue
        (state,) = got.caches(index).values()
        assert groups["state"].elements == state.elements
        tables = got.model.weights[f"layers.{index}.mixer.o_norm"].padding
        assert len(tables) == 4
    assert got.unexplained() == ([], [], [])


def test_minimax_m1_has_no_tables(corpus: Path) -> None:
    got = readings.from_corpus(corpus, "MiniMaxAI__MiniMax-M1-80k")
    assert got.mixers().count("lightning") == 70
    assert got.mixers().count("gqa") == 10
    spec = got.mixer(7)
    assert (spec.head_dim, spec.rope.dims) == (128, 64)
    assert not any(weight.padding for weight in got.model.weights.values())
    assert got.mixer(0).slope_scale == pytest.approx(1.00001)
    assert got.mixer(78).slope_scale == pytest.approx(1 - 78 / 79.00001 + 1e-5)
