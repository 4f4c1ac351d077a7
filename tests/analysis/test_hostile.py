"""Whatever a config, headers or --facts hold: a report or two lines, never a traceback."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from day0.analysis.analyze import Analysis, of_checkpoint
from day0.checkpoint.load import load
from day0.errors import Day0Error
from tests import corpus as corpus_place
from tests.analysis import hostile
from tests.field_cases.asking import small, wanted

NAMES = corpus_place.names("configs", ".json")
FUZZ = settings(
    max_examples=100, suppress_health_check=list(HealthCheck), deadline=None, database=None
)
DEMO = load("demo")
DEMO_TENSORS = {
    name: (header.dtype, header.shape)
    for name, header in (DEMO.headers.tensors if DEMO.headers else {}).items()
}
DEMO_FACTS = tuple(of_checkpoint(DEMO).model.facts)


def changed(draw: st.DrawFn, config: dict[str, Any]) -> dict[str, Any]:
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(hostile.paths(config))))
        hostile.put(config, path, draw(st.sampled_from(hostile.VALUES)))
    return config


@st.composite
def corpus_configs(draw: st.DrawFn) -> dict[str, Any]:
    place = corpus_place.find()
    assert place is not None
    text = (place / "configs" / f"{draw(st.sampled_from(NAMES))}.json").read_text("utf-8")
    return changed(draw, hostile.few_layers(json.loads(text)))


@pytest.mark.skipif(not NAMES, reason="no shared/corpus beside the checkout")
@FUZZ
@given(config=corpus_configs())
def test_a_config_of_the_corpus_with_hostile_values(config: dict[str, Any]) -> None:
    hostile.survive(config)


@st.composite
def demo_files(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    config = hostile.few_layers(DEMO.config, most=99)
    tensors = dict(DEMO_TENSORS)
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(tensors)))
        what = draw(st.sampled_from(("drop", "shape", "dtype", "add", "rename", "config")))
        dtype, shape = tensors[name]
        if what == "config":
            config = changed(draw, config)
        elif what == "drop" and len(tensors) > 1:
            del tensors[name]
        elif what == "shape":
            tensors[name] = (dtype, draw(st.sampled_from(hostile.SHAPES)))
        elif what == "dtype":
            tensors[name] = (draw(st.sampled_from(hostile.DTYPES)), shape)
        elif what == "add":
            tail = draw(st.sampled_from(hostile.TAILS))
            made = draw(st.sampled_from(hostile.DTYPES)), draw(st.sampled_from(hostile.SHAPES))
            tensors[name.rpartition(".")[0] + tail] = made
        elif what == "rename":
            old = draw(st.sampled_from(("self_attn", "mlp", "weight", "0", "1", "layers")))
            new = draw(st.sampled_from(("strange", "7", "", "weight_packed")))
            tensors[name.replace(old, new) or "x"] = tensors.pop(name)
    return config, tensors


@FUZZ
@given(files=demo_files())
def test_the_demo_with_hostile_headers(files: tuple[dict[str, Any], dict[str, Any]]) -> None:
    config, tensors = files
    hostile.survive(config, hostile.headers(tensors))


@FUZZ
@given(path=st.sampled_from(DEMO_FACTS), value=st.sampled_from(hostile.VALUES))
def test_hostile_facts(path: str, value: Any) -> None:
    hostile.survive(DEMO.config, DEMO.headers, {path: value})


@pytest.mark.parametrize(
    ("words", "exit_code", "told"),
    [
        ({"hidden_size": "24"}, 2, ("hidden_size is '24'", "whole number")),
        ({"hidden_size": -24}, 2, ("hidden_size is -24", "from 1 to")),
        ({"num_attention_heads": 0}, 2, ("num_attention_heads is 0",)),
        ({"num_attention_heads": 5}, 2, ("num_heads = 5 and num_kv_heads = 2", "multiple")),
        ({"vocab_size": float("nan")}, 2, ("vocab_size is nan",)),
        ({"rms_norm_eps": "1e-5"}, 2, ("rms_norm_eps is '1e-5'", "a number")),
        ({"tie_word_embeddings": "no"}, 2, ("tie_word_embeddings is 'no'", "true or false")),
        ({"rope_theta": 0}, 2, ("rope_theta is 0", "above 0")),
        ({"num_hidden_layers": 10**6}, 2, ("num_hidden_layers is 1000000", "1 to 10000")),
        ({"rope_scaling": {"rope_type": "yarn", "factor": "4"}}, 2, ("factor is '4'",)),
        ({"num_hidden_layers": [2]}, 4, ("num_hidden_layers is [2]",)),
        ({"hidden_size": {"a": 1}}, 4, ("hidden_size is {'a': 1}", "--facts")),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)  # fmt: skip
def test_a_wrong_value_is_told_with_what_is_allowed(
    words: dict[str, Any], exit_code: int, told: tuple[str, ...]
) -> None:
    error = hostile.survive(small(**words))
    assert isinstance(error, Day0Error)
    assert error.exit_code == exit_code
    for part in told:
        assert part in f"{error.message} {error.hint}"


def sound(words: dict[str, Any]) -> Analysis:
    analysis = hostile.survive(words)
    assert isinstance(analysis, Analysis), analysis
    return analysis


def test_whole_floats_and_zero_one_flags_are_read_as_what_they_are() -> None:
    plain = sound(small())
    odd = sound(small(hidden_size=24.0, num_key_value_heads=2.0, tie_word_embeddings=1))
    assert odd.params.total == plain.params.total
    assert isinstance(odd.spec.shape.hidden_size, int)


def test_null_kv_heads_mean_as_many_as_heads_and_a_zero_head_dim_none() -> None:
    assert sound(small(num_key_value_heads=None)).cache_totals.kv_bytes_per_token == 2 * 2 * 64
    zero = sound(small(head_dim=0, num_attention_heads=3, num_key_value_heads=3))
    assert zero.spec.layers[0].sublayers[0].branches[0].spec.head_dim == 24 // 3


def test_a_list_with_one_entry_a_layer_is_read_per_layer() -> None:
    """OpenELM and DeciLM state heads so, Gemma-3n its feed-forward."""
    listed = sound(small(num_key_value_heads=[2, 4], intermediate_size=[40, 72]))
    specs = [layer.sublayers for layer in listed.spec.layers]
    assert [subs[0].branches[0].spec.num_kv_heads for subs in specs] == [2, 4]
    assert [subs[1].branches[0].spec.intermediate for subs in specs] == [40, 72]
    assert listed.cache_totals.kv_bytes_per_token == 2 * (2 + 4) * 8 * 2


def test_a_form_nobody_reads_makes_the_layer_unknown_and_is_told() -> None:
    """ERNIE-VL has lists of two where others have a number: no reason to give up on the rest."""
    analysis = sound(small(intermediate_size=[40, 72, 80]))
    assert [layer.sublayers[1].branches[0].stem for layer in analysis.spec.layers] == [
        "unknown", "unknown",
    ]  # fmt: skip
    found = [item for item in analysis.findings if item.code == "missing_word"]
    assert found
    assert "intermediate_size is [40, 72, 80]" in found[0].message


def test_unknown_words_are_decisive_guesses_not_errors() -> None:
    words = small(
        num_local_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        num_dense_layers=0,
        model_type="new",
        scoring_func="softplus_squared",
    )
    analysis = of_checkpoint(hostile.checkpoint(words, hostile.headers(moe_tensors())))
    told = [item for f in analysis.findings if f.code == "assumed_facts" for item in f.evidence]
    assert any("moe.score" in item and "softplus_squared" in item for item in told)


def moe_tensors() -> dict[str, tuple[str, tuple[int, ...]]]:
    words = small(model_type="mixtral", num_local_experts=4, num_experts_per_tok=2,
                  intermediate_size=16)  # fmt: skip
    return wanted(words)


def test_an_unknown_dtype_word_is_an_assumption() -> None:
    fact = sound(small(dtype="float5_e1m3")).model.facts["dtype"]
    assert (fact.value, fact.how) == ("bf16", "assumed")
    assert "float5_e1m3" in fact.source


def test_no_limit_on_the_context_is_not_a_length() -> None:
    analysis = sound(small(max_position_embeddings=10**30))
    assert analysis.spec.context_length is None
    assert "context_length" in [item.code for item in analysis.findings]


def test_facts_that_nothing_asks_for_are_told() -> None:
    analysis = of_checkpoint(hostile.checkpoint(small()), stated={"gqa.num_headz": 4})
    (finding,) = [item for item in analysis.findings if item.code == "unused_facts"]
    assert (finding.severity, finding.evidence) == ("warning", ("gqa.num_headz",))


def test_a_fact_of_one_layer_is_stated_for_that_layer() -> None:
    analysis = of_checkpoint(hostile.checkpoint(small()), stated={"gqa.num_kv_heads@1": 4})
    heads = [layer.sublayers[0].branches[0].spec.num_kv_heads for layer in analysis.spec.layers]
    assert heads == [2, 4]


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"gqa.rope_pairing": "backwards"}, "one of half, interleaved"),
        ({"gqa.num_heads": "many"}, "a whole number"),
        ({"gqa.scale": "large"}, "a number"),
    ],
    ids=["word", "size", "real"],
)
def test_a_stated_fact_is_held_against_what_it_may_be(stated: dict[str, Any], told: str) -> None:
    error = hostile.survive(small(), None, stated)
    assert isinstance(error, Day0Error)
    assert "--facts" in error.message
    assert told in error.message
