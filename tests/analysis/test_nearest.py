"""Distances to known models, and what differs in words: told by mechanisms, never by a name."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from day0.analysis.analyze import Analysis, analyze
from day0.analysis.compare import Difference, compare
from day0.analysis.diff import diff
from day0.analysis.nearest import nearest, rows
from day0.catalog import entry, features
from tests.field_cases.asking import analysis, small

KIMI_K3 = "moonshotai--kimi-k3"
KIMI_LINEAR = "moonshotai--kimi-linear-48b-a3b-instruct"
FLASH, GLM = "zai-org--glm-5.3-flash", "zai-org--glm-5.2"


def between(a: str, b: str) -> Difference:
    known = {one.name: one.features for one in features.known()}
    return compare(known[a], known[b])


def test_kimi_k3_against_kimi_linear() -> None:
    """All that is new in meaning, and nothing else; their sizes aside."""
    found = between(KIMI_K3, KIMI_LINEAR)
    assert found.meaning == (
        "attention residual instead of plain residual",
        "SiTU activation instead of SiLU activation",
        "bounded decay gate of KDA instead of unbounded decay gate of KDA (softplus)",
        "full-rank output gate of KDA instead of low-rank output gate of KDA",
        "latent MoE",
        "low-rank query of MLA instead of query of MLA without a latent",
        "output gate of MLA (per element)",
    )
    assert "moe.num_experts 896 instead of 256" in found.sizes
    assert "moe.scale 1.0 instead of 2.446" in found.constants
    assert found.stored == ("kda.a_log_size 128 instead of 32",)


def test_the_other_way_round_it_is_lost() -> None:
    there, back = between(KIMI_K3, KIMI_LINEAR), between(KIMI_LINEAR, KIMI_K3)
    assert back.distance == there.distance > 10
    assert {"no latent MoE", "no output gate of MLA (per element)"} < set(back.meaning)
    assert "plain residual instead of attention residual" in back.meaning


def test_glm_5_3_flash_against_glm_5_2() -> None:
    assert between(FLASH, GLM).meaning == (
        "hyper-connections instead of plain residual",
        "KDA layers",
        "clamped activation",
        "indexer with top-k selection in MLA in all layers instead of a part",
        "no positions in MLA (NoPE) instead of rotary positions in MLA",
        "no positions in the indexer (NoPE) instead of rotary positions in the indexer",
        "no selection shared between layers in a part of the layers",
        "open pool always selected",
        "pooled indexer instead of indexer over single tokens",
    )


def of_config(corpus: Path, name: str, folder: Path) -> Analysis:
    folder.mkdir()
    shutil.copy(corpus / "configs" / f"{name}.json", folder / "config.json")
    return analyze(str(folder))


def test_glm_5_3_fp8_and_glm_5_2_fp8_are_identical(corpus: Path, tmp_path: Path) -> None:
    here = of_config(corpus, "zai-org__GLM-5.3-FP8", tmp_path / "a")
    there = of_config(corpus, "zai-org__GLM-5.2-FP8", tmp_path / "b")
    found = diff(here, there)
    assert found.difference == Difference(distance=0)
    assert found.identical
    assert found.same_graph
    assert (found.only_here, found.only_there) == ((), ())


def test_a_renamed_model_has_the_same_neighbours() -> None:
    spec = entry.entry_called(KIMI_K3).spec
    renamed = replace(spec, name="other", model_type="other", architectures=("Other",))
    first, *_ = nearest(renamed).neighbours
    assert (first.name, first.difference.distance) == (KIMI_K3, 0)
    neighbours = nearest(spec, id=f"catalog:{KIMI_K3}").neighbours
    assert neighbours[0].name == KIMI_LINEAR
    assert KIMI_K3 not in {one.name for one in neighbours}
    assert len(neighbours) == len(entry.names()) - 1
    distances = [one.difference.distance for one in neighbours]
    assert distances == sorted(distances)


@pytest.mark.parametrize(
    ("words", "told", "kind"),
    [
        ({"hidden_act": "gelu"}, "GELU activation instead of SiLU activation", "meaning"),
        ({"attention_bias": True}, "bias on q, k and v", "meaning"),
        ({"rms_norm_eps": 1e-6}, "norm.eps 1e-06 instead of 1e-05", "constants"),
        ({"rope_theta": 5e5}, "gqa.rope.theta 500000.0 instead of 10000.0", "constants"),
        ({"intermediate_size": 80}, "glu.intermediate 80 instead of 40", "sizes"),
        ({"num_hidden_layers": 3}, "num_layers 3 instead of 2", "sizes"),
    ],
)
def test_one_word_of_a_config_is_one_difference(words: dict, told: str, kind: str) -> None:
    plain = features.features(analysis(small()).spec)
    found = compare(features.features(analysis(small(**words)).spec), plain)
    assert told in getattr(found, kind)
    assert 0 < found.distance <= 2
    assert compare(plain, plain).equal


def test_order_of_layers_counts_where_nothing_else_differs() -> None:
    one = {"mixer": {'"gqa"': 2}, "order": {'[["gqa+glu",1],["gqa+moe",1]]': 1}}
    other = {**one, "order": {'[["gqa+moe",1],["gqa+glu",1]]': 1}}
    assert compare(one, other).meaning == ("layers in another order",)
    assert compare(one, one).equal


def test_the_index_is_current() -> None:
    """`make catalog` writes it beside the entries."""
    models = {}
    for name in entry.names():
        found = entry.entry_called(name)
        models[name] = (found.id, features.features(found.spec))
    assert features.INDEX.read_text(encoding="utf-8") == features.dump(models)


def test_rows_are_json_with_words_for_the_first() -> None:
    found = rows(nearest(entry.entry_called(FLASH).spec, id=f"catalog:{FLASH}"))
    assert json.loads(json.dumps(found)) == found
    assert found[0]["differences"]
    assert {"name", "distance", "differences"} < set(found[0])
    assert not any(row["sizes"] for row in found[8:])
