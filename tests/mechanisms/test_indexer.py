"""The lightning indexer: which layers own one, who reads whose list, rotary pairing, caches."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import listing
from tests.mechanisms import readings
from tests.tiny import TinyCheckpoint

Tiny = Callable[..., TinyCheckpoint]
GLM = "zai-org__GLM-5.2"
FULL = [0, 1, 2, *range(6, 78, 4)]


def owners(got: readings.Read) -> list[int]:
    return [op.layer for op in got.ops("indexer")]


@pytest.mark.parametrize("headers", [True, False], ids=["headers", "config"])
def test_case_35_indexers_of_21_layers(corpus: Path, headers: bool) -> None:
    found = listing.headers(corpus / "headers" / f"{GLM}.tsv") if headers else None
    got = readings.from_corpus(corpus, GLM, found)
    assert owners(got) == FULL
    assert len(FULL) == 21
    assert 2 * got.per_token("index") == 21 * 128 * 2
    for op in got.ops("sparse_mla"):
        last = max(i for i in FULL if i <= op.layer)
        (owner,) = got.ops("indexer", last)
        assert dict(op.inputs)["selected"] == dict(owner.outputs)["selected"]
    assert not [f for f in got.reading.findings if f.severity != "info"]


@pytest.mark.parametrize(
    "words",
    [
        {"indexer_types": ["full" if i in FULL else "shared" for i in range(78)]},
        {"index_topk_pattern": "".join("F" if i in FULL else "S" for i in range(79))},
        {"index_topk_freq": 4, "index_skip_topk_offset": 3},
    ],
    ids=["types", "pattern", "freq"],
)
def test_spellings_of_the_pattern(corpus: Path, words: dict[str, Any]) -> None:
    text = (corpus / "configs" / f"{GLM}.json").read_text(encoding="utf-8")
    config = json.loads(text)
    for key in ("indexer_types", "index_topk_pattern", "index_topk_freq"):
        config.pop(key)
    assert owners(readings.from_parts(config | words, None)) == FULL


def test_no_word_gives_every_layer_its_own(corpus: Path) -> None:
    assert owners(readings.from_corpus(corpus, "zai-org__GLM-5")) == list(range(78))


@pytest.mark.hf
def test_tensors_win_over_the_pattern(tiny: Tiny) -> None:
    folder = tiny("glm_moe_dsa").folder
    plain = readings.from_folder(folder)
    config = readings.config_of(folder)
    kinds = config["indexer_types"]
    first_shared = kinds.index("shared")
    config["indexer_types"] = [
        "full" if i == first_shared else kind for i, kind in enumerate(kinds)
    ]
    got = readings.from_parts(config, plain.headers)
    (finding,) = got.reading.findings
    assert (finding.code, finding.severity) == ("indexer_conflict", "warning")
    assert str(first_shared) in finding.message
    assert owners(got) == owners(plain)


@pytest.mark.hf
@pytest.mark.parametrize(
    ("type_name", "pairing"),
    [
        ("deepseek_v32", "half"),
        ("axk2", "half"),
        ("glm_moe_dsa", "interleaved"),
        ("dots3_note", "interleaved"),
        ("mistral_large4", "interleaved"),
    ],
)
def test_case_129_pairing_differs_from_the_main_attention(
    tiny: Tiny, type_name: str, pairing: str
) -> None:
    got = readings.from_folder(tiny(type_name).folder)
    spec = got.mixer(0)
    assert spec.rope.pairing == "interleaved"
    assert spec.rope.place == "last"
    assert spec.indexer.rope == replace(spec.rope, pairing=pairing, place="first")
    for path in ("indexer.rope_pairing", "indexer.rope_place"):
        assert got.facts[path].how == "known"
        assert got.facts[path].decisive
    rotated = [op for op in got.ops("rope", 0) if ".indexer." in op.id]
    assert [op.attr("num_heads") for op in rotated] == [spec.indexer.num_heads, 1]
    assert {op.attr("pairing") for op in rotated} == {pairing}


@pytest.mark.hf
@pytest.mark.parametrize("type_name", ["deepseek_v32", "glm_moe_dsa", "dots3_note"])
def test_spec_scale_and_cache(tiny: Tiny, type_name: str) -> None:
    config = readings.config_of(tiny(type_name).folder)
    got = readings.from_folder(tiny(type_name).folder)
    heads, dim = config["index_n_heads"], config["index_head_dim"]
    for op in got.ops("indexer"):
        assert (op.attr("num_heads"), op.attr("head_dim")) == (heads, dim)
        assert op.attr("top_k") == config["index_topk"]
        assert op.attr("scale") == pytest.approx((heads * dim) ** -0.5)
        assert got.held(op.layer, "index", 40) == 40 * dim
    (norm,) = {op.attr("eps") for op in got.ops("layernorm")}
    assert norm == 1e-6
    shared = [i for i in range(len(got.mixers())) if i not in owners(got)]
    assert all(got.held(i, "index", 40) == 0 for i in shared)


@pytest.mark.hf
def test_queries_from_the_hidden_rows(tiny: Tiny) -> None:
    """Mistral Large 4 has no query latent: layer norm, projection, position scale, then rotation;
    layers without rotary embedding rotate no index key either."""
    config = readings.config_of(tiny("mistral_large4").folder)
    got = readings.from_folder(tiny("mistral_large4").folder)
    assert got.mixer(0).indexer.q_input == "hidden"
    path = "layers.0.mixer.indexer."
    assert dict(got.op(f"{path}q_norm").inputs)["x"] == "layers.0.mixer.norm"
    assert dict(got.op(f"{path}wq_b").inputs)["x"] == f"{path}q_norm"
    assert dict(got.op(f"{path}ssmax").inputs)["x"] == f"{path}wq_b"
    assert dict(got.op(f"{path}q_rope").inputs)["x"] == f"{path}ssmax"
    plain = [i for i in owners(got) if not config["no_rope_layers"][i]]
    assert plain
    assert all(got.mixer(i).indexer.rope is None for i in plain)
