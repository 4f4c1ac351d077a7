"""A key with a letter wrong changes the numbers in silence, unless somebody says so."""

from day0.checkpoint.source import Checkpoint
from day0.models.read import read_model

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 8,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "vocab_size": 32,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "max_position_embeddings": 128,
}


def warned(config: dict[str, object]) -> list[str]:
    checkpoint = Checkpoint(id="here", revision="", origin="folder", config=config, headers=None)
    return [
        item
        for finding in read_model(checkpoint).findings
        if finding.code == "misspelt_keys"
        for item in finding.evidence
    ]


def test_a_letter_wrong_is_told() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    assert warned({**config, "num_key_value_head": 2}) == [
        "num_key_value_head: is num_key_value_heads meant?"
    ]


def test_right_keys_and_strange_ones_are_not() -> None:
    assert warned(LLAMA) == []
    assert warned({**LLAMA, "colour_of_the_sky": 3}) == []
