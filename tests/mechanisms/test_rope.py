"""Rotary tables: every spelling of base, scaling and share; the field's faults with them."""

from typing import Any

import pytest

from day0.mechanisms.rope import Rope
from tests.mechanisms import readings
from tests.mechanisms.small import llama


def rope_of(**words: Any) -> Rope:
    config = llama(**words)
    if "rope_theta" not in words:
        del config["rope_theta"]
    return readings.from_parts(config, None).mixer(0).rope


def test_cases_12_13_base_in_rope_parameters_only() -> None:
    assert rope_of(rope_parameters={"rope_type": "default", "rope_theta": 500000.0}).theta == 5e5


def test_case_12_two_bases_conflict() -> None:
    words = {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}
    got = readings.from_parts(llama(rope_theta=10000.0, **words), None)
    (finding,) = got.reading.findings
    assert (finding.code, finding.severity) == ("rope_theta_conflict", "warning")
    assert finding.evidence == ("rope_theta", "rope_parameters.rope_theta")
    assert got.mixer(0).rope.theta == 500000.0
    same = readings.from_parts(llama(rope_theta=500000, **words), None)
    assert same.reading.findings == []


def test_case_14_a_default_is_told_apart() -> None:
    config = llama()
    del config["rope_theta"]
    fact = readings.from_parts(config, None).facts["rope.theta.full_attention"]
    assert (fact.value, fact.how) == (10000.0, "default")
    stated = readings.from_parts(llama(), None).facts["rope.theta.full_attention"]
    assert (stated.value, stated.how) == (10000.0, "config")


def test_case_14_no_words_of_an_unknown_type() -> None:
    """No base is made up: the absence of rotary embedding is assumed, and decisive."""
    config = llama(model_type="unheard_of")
    del config["rope_theta"]
    got = readings.from_parts(config, None)
    assert got.mixer(0).rope is None
    fact = got.facts["gqa.no_rope_without_words.full_attention"]
    assert (fact.how, fact.decisive) == ("assumed", True)


def test_case_15_length_is_not_stretched_again() -> None:
    words = {"rope_type": "deepseek_yarn", "factor": 32, "rope_theta": 1e4,
             "original_max_position_embeddings": 32768}  # fmt: skip
    config = llama(max_position_embeddings=1048576, rope_parameters=words)
    got = readings.from_parts(config, None)
    assert got.reading.spec.context_length == 1048576
    assert got.mixer(0).rope.scaling == "yarn"


@pytest.mark.parametrize("factor", [1.0, None], ids=["stated", "left out"])
def test_case_17_attention_factor(factor: float | None) -> None:
    words = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096}
    if factor is not None:
        words["attention_factor"] = factor
    args = dict(rope_of(rope_theta=1e4, rope_scaling=words).args)
    assert args.get("attention_factor") == factor
    assert (args["factor"], args["original_max_position_embeddings"]) == (8.0, 4096)


def test_llama3_arguments() -> None:
    words = {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
             "original_max_position_embeddings": 8192}  # fmt: skip
    rope = rope_of(rope_theta=500000.0, rope_scaling=words)
    assert rope.scaling == "llama3"
    assert rope.args == tuple(sorted((key, words[key]) for key in words if key != "type"))


def test_longrope_takes_the_outer_lengths() -> None:
    words = {"type": "su", "short_factor": [1.0, 1.1], "long_factor": [2.0, 3.0]}
    rope = rope_of(rope_theta=1e4, rope_scaling=words, max_position_embeddings=131072,
                   original_max_position_embeddings=4096)  # fmt: skip
    args = dict(rope.args)
    assert rope.scaling == "longrope"
    assert (args["max_position_embeddings"], args["original_max_position_embeddings"]) == (
        131072, 4096,
    )  # fmt: skip
    assert args["long_factor"] == (2.0, 3.0)


def test_mrope_of_text_is_plain() -> None:
    words = {"type": "mrope", "mrope_section": [1, 1, 1]}
    rope = rope_of(rope_theta=1e4, rope_scaling=words)
    assert (rope.scaling, rope.args) == ("default", ())


def test_unknown_scaling_is_a_decisive_guess() -> None:
    got = readings.from_parts(llama(rope_scaling={"type": "spiral", "factor": 2.0}), None)
    fact = got.facts["rope.scaling.full_attention"]
    assert (fact.how, fact.decisive) == ("assumed", True)
    assert "spiral" in fact.source


@pytest.mark.parametrize(
    ("words", "dims"),
    [
        ({"partial_rotary_factor": 0.5}, 6),
        ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, 6),
        ({"rotary_dim": 4}, 4),
        ({"model_type": "qwen3_next"}, 3),
        ({}, 12),
    ],
    ids=["outer", "inner", "dims", "class", "all"],
)
def test_share_of_the_head(words: dict[str, Any], dims: int) -> None:
    got = readings.from_parts(
        llama(**{"head_dim": 12, "layer_types": ["full_attention"], **words}), None
    )
    assert got.mixer(0).rope.dims == dims


def test_table_of_each_kind() -> None:
    tables = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
    config = llama(num_hidden_layers=2, sliding_window=8, rope_parameters=tables,
                   layer_types=["sliding_attention", "full_attention"])  # fmt: skip
    del config["rope_theta"]
    got = readings.from_parts(config, None)
    assert [got.mixer(i).rope.theta for i in (0, 1)] == [1e4, 1e6]
    assert [got.mixer(i).rope.scaling for i in (0, 1)] == ["default", "linear"]
    tables["full_attention"] = None  # type: ignore[assignment]
    assert readings.from_parts(config, None).mixer(1).rope is None
