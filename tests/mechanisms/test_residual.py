"""How branches join the stream: plain, with one factor, MiniMax-01's way."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mechanisms import readings
from tests.mechanisms.small import llama
from tests.tiny import TinyCheckpoint, rename

Tiny = Callable[..., TinyCheckpoint]


def test_plain_sum() -> None:
    add = readings.from_parts(llama(), None).op("layers.0.mixer.residual")
    assert dict(add.inputs) == {"a": "embedding", "b": "layers.0.mixer.o_proj"}
    assert (add.attr("scale_a"), add.attr("scale_b")) == (1.0, 1.0)


def test_multiplier() -> None:
    add = readings.from_parts(llama(residual_multiplier=0.25), None).op("layers.0.ffn.residual")
    assert (add.attr("scale_a"), add.attr("scale_b")) == (1.0, 0.25)


@pytest.mark.hf
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
def test_onto_the_normed_input(tiny: Tiny, tmp_path: Path, known: bool) -> None:
    checkpoint = tiny("minimax")
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder)
    for index, mixer in enumerate(got.mixers()):
        kind = "linear_attn" if mixer == "lightning" else "full_attn"
        for name, words in (("mixer", kind), ("ffn", "mlp")):
            add = got.op(f"layers.{index}.{name}.residual")
            assert dict(add.inputs)["a"] == f"layers.{index}.{name}.norm"
            assert add.attr("scale_a") == config[f"{words}_alpha_factor"]
            assert add.attr("scale_b") == config[f"{words}_beta_factor"]
    assert got.facts["residual.of_normed"].how == "known"


def test_minimax_m1_spells_it_otherwise(corpus: Path) -> None:
    got = readings.from_corpus(corpus, "MiniMaxAI__MiniMax-M1-80k")
    add = got.op("layers.3.ffn.residual")
    assert add.attr("scale_a") == pytest.approx(3.5565588200778455)
    assert dict(add.inputs)["a"] == "layers.3.ffn.norm"
    assert got.facts["residual.of_normed"].how == "config"


def test_factors_default_to_one_in_the_class() -> None:
    config = llama(model_type="minimax", num_local_experts=2, num_experts_per_tok=1)
    add = readings.from_parts(config, None).op("layers.0.ffn.residual")
    assert (add.attr("scale_a"), add.attr("scale_b")) == (1.0, 1.0)
    assert dict(add.inputs)["a"] == "layers.0.ffn.norm"
