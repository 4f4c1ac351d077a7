"""What configs say of each layer, in every spelling, and what is noticed where they disagree."""

from typing import Any

import pytest

from day0.models import pattern
from day0.models.words import reader


def read(num_layers: int, num_drafts: int = 0, **words: Any) -> pattern.Pattern:
    return pattern.read(reader({"model_type": "none", **words}), num_layers, num_drafts)


THREE_TO_ONE = ["linear", "linear", "linear", "full"] * 2


@pytest.mark.parametrize(
    "words",
    [
        {"layer_types": ["linear_attention"] * 3 + ["full_attention"] + ["linear_attention"] * 3
         + ["full_attention"]},
        {"full_attention_interval": 4},
        {"layer_group_size": 4},
        {"attn_type_list": [0, 0, 0, 1] * 2},
        {"linear_attn_config": {"kda_layers": [1, 2, 3, 5, 6, 7], "full_attn_layers": [4, 8]}},
        {"linear_attn_config": {"kda_layers": [0, 1, 2, 4, 5, 6], "full_attn_layers": [3, 7]}},
        {"model_type": "qwen3_next"},
    ],
    ids=["list", "interval", "group", "binary", "from 1", "from 0", "class"],
)  # fmt: skip
def test_case_29_every_spelling_of_three_to_one(words: dict[str, Any]) -> None:
    found = read(8, **words)
    assert (found.mixers, found.findings) == (THREE_TO_ONE, [])


def test_case_27_the_list_wins_over_the_interval() -> None:
    """A depth-pruned model keeps both keys."""
    kinds = ["linear_attention"] * 8
    kinds[2] = kinds[4] = "full_attention"
    found = read(8, layer_types=kinds, full_attention_interval=4)
    assert [i for i, word in enumerate(found.mixers) if word == "full"] == [2, 4]
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("pattern_conflict", "warning")
    assert finding.evidence == ("layer_types", "interval")


@pytest.mark.parametrize(
    ("words", "mixers"),
    [
        ({"sliding_window": 8}, ["sliding"] * 4),
        ({"sliding_window": None}, [""] * 4),
        ({"sliding_window": 8, "use_sliding_window": False}, ["full"] * 4),
        ({"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 3},
         ["full"] * 3 + ["sliding"]),
        ({"model_type": "mistral"}, ["sliding"] * 4),
        ({"model_type": "mistral", "sliding_window": None}, [""] * 4),
        ({"model_type": "qwen2"}, ["full"] * 4),
        ({"model_type": "gpt_oss", "sliding_window": 8}, ["sliding", "full"] * 2),
    ],
    ids=["all", "null", "switched off", "from layer 3", "absent", "null of the class",
         "off by default", "class period"],
)  # fmt: skip
def test_windows(words: dict[str, Any], mixers: list[str]) -> None:
    assert read(4, **words).mixers == mixers


@pytest.mark.parametrize(
    ("words", "ffns"),
    [
        ({"first_k_dense_replace": 1}, ["dense", "sparse", "sparse", "sparse"]),
        ({"moe_layer_freq": [0, 1, 0, 1]}, ["dense", "sparse"] * 2),
        ({"mlp_layer_types": ["dense", "sparse", "sparse", "dense"]},
         ["dense", "sparse", "sparse", "dense"]),
        ({"decoder_sparse_step": 2, "mlp_only_layers": [3], "num_experts": 4},
         ["dense", "sparse", "dense", "dense"]),
        ({"decoder_sparse_step": 1, "mlp_only_layers": [], "num_experts": 0}, ["dense"] * 4),
        ({"model_type": "glm4_moe"}, ["dense", "sparse", "sparse", "sparse"]),
        ({}, [""] * 4),
    ],
    ids=["prefix", "list of numbers", "list of words", "step", "no experts", "class", "nothing"],
)  # fmt: skip
def test_feed_forwards(words: dict[str, Any], ffns: list[str]) -> None:
    assert read(4, **words).ffns == ffns


def test_lists_of_the_wrong_length() -> None:
    short = read(4, layer_types=["full_attention"] * 3)
    assert [(f.code, f.severity) for f in short.findings] == [("list_length", "warning")]
    assert short.mixers == ["full", "full", "full", ""]
    with_draft = read(4, 1, layer_types=["full_attention"] * 5)
    assert (with_draft.mixers, with_draft.findings) == (["full"] * 4, [])
    longer = read(4, layer_types=["full_attention"] * 6)
    assert [f.code for f in longer.findings] == ["list_length"]


def test_two_lists_that_do_not_cover_the_layers() -> None:
    found = read(4, linear_attn_config={"kda_layers": [1, 2], "full_attn_layers": [4]})
    assert [f.code for f in found.findings] == ["layer_list"]
