"""The catalog's entries: named by the rule, and equal to a fresh reading of the config."""

import csv
import json
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from day0.analysis import caches, params
from day0.analysis.analyze import analyze
from day0.analysis.layers import layer_view
from day0.catalog import entry as catalog
from day0.catalog.__main__ import read
from day0.checkpoint.config import parse_config
from day0.errors import Day0Error
from day0.models import ModelSpec, decoder, spec_data, words
from day0.models.build import build
from tests import corpus as corpus_place

NAMES = catalog.names()
FLASH = "zai-org--glm-5.3-flash"
# Stored plain, so that an entry, which knows no stored forms, expects as many tensors.
WHOLE = ("moonshotai--kimi-linear-48b-a3b-instruct", "qwen--qwen3-next-80b-a3b-instruct",
         "meta-llama--llama-3.1-8b-instruct")  # fmt: skip


@lru_cache(maxsize=1)
def published() -> dict[str, tuple[str, str]]:
    """Entry name -> (hub id, config file) of the corpus, by the manifest."""
    place = corpus_place.find()
    assert place is not None
    with (place / "manifest.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {
        row["model_id"].lower().replace("/", "--"): (row["model_id"], row["file"]) for row in rows
    }


def views(spec: ModelSpec) -> list[dict[str, Any]]:
    return [layer_view(i, layer, spec.residual.stem) for i, layer in enumerate(spec.layers)]


def data_of(name: str) -> dict[str, Any]:
    return json.loads((catalog.FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def test_enough_entries() -> None:
    assert len(NAMES) >= 40
    assert {FLASH, "moonshotai--kimi-k3", "moonshotai--kimi-linear-48b-a3b-instruct"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_name_and_round_trip(name: str) -> None:
    entry = catalog.entry_called(name)
    assert name == entry.name == entry.id.lower().replace("/", "--") == entry.spec.name.lower(
    ).replace("/", "--")  # fmt: skip
    # Through text, as a file is.
    again = json.loads(json.dumps(catalog.dump(entry), allow_nan=False))
    assert again == data_of(name)
    assert catalog.load(again) == entry
    assert spec_data.load(spec_data.dump(entry.spec)) == entry.spec


def test_round_trip_of_a_spec_read_from_tensors() -> None:
    spec = analyze("demo").spec
    assert spec.drafts
    data = json.loads(json.dumps(spec_data.dump(spec), allow_nan=False))
    assert spec_data.load(data) == spec
    assert sum(times for _, times in data["layers"]["runs"]) == len(spec.layers)


@pytest.mark.parametrize("name", NAMES)
def test_equal_to_the_published_config(name: str, corpus: Path) -> None:
    hub_id, file = published()[name]
    path = corpus / "configs" / file
    cfg = words.reader(parse_config(path.read_bytes(), str(path.parent), path.name)[0])
    reading = decoder.read(cfg, None, None)
    direct = build(reading.spec, reading.names, reading.places)
    entry = catalog.entry_called(name)
    stored = catalog.model_of(entry, {})
    assert params.count(stored) == params.count(direct)
    assert caches.totals(stored) == caches.totals(direct)
    assert views(stored.spec) == views(direct.spec)
    assert not any("unknown" in view["mixer"] + view["ffn"] for view in views(stored.spec))
    assert stored.facts == cfg.facts
    fresh = json.loads(json.dumps(catalog.dump(read(path, hub_id))))
    assert fresh == data_of(name), "day0/catalog/entries is out of date: run `make catalog`"


@pytest.mark.parametrize("name", WHOLE)
def test_analysis_is_that_of_the_published_config(name: str, corpus: Path, tmp_path: Path) -> None:
    shutil.copy(corpus / "configs" / published()[name][1], tmp_path / "config.json")
    direct, stored = analyze(str(tmp_path)), analyze(f"catalog:{name}")
    assert stored.params == direct.params
    assert stored.cache_totals == direct.cache_totals
    assert views(stored.spec) == views(direct.spec)
    assert stored.costs == direct.costs
    assert stored.entries == direct.entries
    assert stored.unread_keys == direct.unread_keys
    assert (stored.settled, stored.proof.status) == (direct.settled, "no-headers")
    assert (stored.proof.expected, stored.headers) == (direct.proof.expected, None)


def test_the_numbers_of_one_entry() -> None:
    """GLM-5.3-Flash by hand: 11 of 45 layers cache a latent of 512 and, per 4 tokens, one index
    key of 128; 34 hold 64 states of 128 x 128 in fp32 and three tails of three rows."""
    analysis = analyze(f"catalog:{FLASH}")
    mixers = [view["mixer"] for view in views(analysis.spec)]
    assert (mixers.count("kda"), mixers.count("sparse_mla")) == (34, 11)
    assert [i for i, word in enumerate(mixers) if word == "sparse_mla"] == list(range(3, 45, 4))
    assert [view["ffn"] for view in views(analysis.spec)] == ["glu"] * 3 + ["moe"] * 42
    totals = analysis.cache_totals
    assert totals.kv_bytes_per_token == 11 * 512 * 2
    assert totals.index_bytes_per_token == 11 * 128 * 2 / 4
    states = 34 * (64 * 128 * 128 * 4 + 3 * 3 * 64 * 128 * 2)
    assert totals.state_bytes_per_sequence == states
    assert analysis.headers is None
    assert analysis.origin == "catalog"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("zai-org--glm-5.3-flsh", FLASH),
        ("kimi-k3", "moonshotai--kimi-k3"),
        ("moonshotai/Kimi-K3", "moonshotai--kimi-k3"),
    ],
    ids=["typo", "no-organisation", "hub-spelling"],
)
def test_unknown_name_gives_near_ones(name: str, near: str) -> None:
    with pytest.raises(Day0Error) as error:
        analyze(f"catalog:{name}")
    assert name in error.value.message
    assert str(len(NAMES)) in error.value.message
    assert near in error.value.message
    assert error.value.hint.startswith("day0 analyze catalog:")
    assert error.value.exit_code == 2


@pytest.mark.parametrize("name", ["", "../entry", "zzzz", "entries/" + FLASH])
def test_no_such_name(name: str) -> None:
    with pytest.raises(Day0Error) as error:
        analyze(f"catalog:{name}")
    assert repr(name) in error.value.message
    assert error.value.hint.removeprefix("day0 analyze catalog:") in NAMES


def test_facts_are_refused() -> None:
    with pytest.raises(Day0Error) as error:
        analyze(f"catalog:{FLASH}", stated={"mla.latent_norm_eps": 1e-5})
    assert f"catalog:{FLASH}" in error.value.message
    assert "--facts" in error.value.message
    assert error.value.hint == "day0 analyze zai-org/GLM-5.3-Flash --facts FILE"
    assert error.value.exit_code == 2


def test_entry_of_another_schema() -> None:
    data = {**data_of(FLASH), "schema": "day0.catalog/99"}
    with pytest.raises(Day0Error, match=r"day0\.catalog/99"):
        catalog.load(data)
