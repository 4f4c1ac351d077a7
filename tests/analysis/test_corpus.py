"""Every published config gives a report; totals and cache bytes are the published ones."""

import csv
import json
import shutil
from functools import lru_cache
from pathlib import Path

import pytest

from day0.analysis.analyze import Analysis, analyze, of_checkpoint
from day0.checkpoint.load import load
from day0.models.known.types import COVERED
from day0.report.analysis_json import to_json
from tests import corpus as corpus_place
from tests import listing

CONFIGS = corpus_place.names("configs", ".json")
LISTINGS = corpus_place.names("headers", ".tsv")
# Totals that the rules of derived_counts.md or the hub give to the last digit.
TOLERANCE = 1e-3


@lru_cache(maxsize=1)
def manifest() -> dict[str, dict[str, str]]:
    place = corpus_place.find()
    if place is None:
        return {}
    with (place / "manifest.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {row["file"].removesuffix(".json"): row for row in rows}


def folder_of(corpus: Path, name: str, into: Path) -> Path:
    """A folder with the config and, where the release has one, its ModelOpt sidecar."""
    into.mkdir(exist_ok=True)
    shutil.copy(corpus / "configs" / f"{name}.json", into / "config.json")
    sidecar = corpus / "quant_sidecars" / f"{name}_hf_quant_config.json"
    if sidecar.is_file():
        shutil.copy(sidecar, into / "hf_quant_config.json")
    return into


def covered(name: str) -> bool:
    row = manifest().get(name, {})
    return bool({row.get("model_type"), row.get("text_model_type")} & set(COVERED))


def comparable(name: str) -> bool:
    return covered(name) and manifest()[name]["compare"] == "yes"


@pytest.mark.parametrize("name", CONFIGS)
def test_every_config_gives_a_report(name: str, corpus: Path, tmp_path: Path) -> None:
    analysis = analyze(str(folder_of(corpus, name, tmp_path)))
    assert analysis.proof.status == "no-headers"
    report = json.loads(json.dumps(to_json(analysis), allow_nan=False))
    assert len(report["layers"]) == report["model"]["num_layers"] > 0
    unknown = [layer for layer in report["layers"] if "unknown" in layer["mixer"]]
    if covered(name):
        assert not unknown
    else:
        # not covered: either everything was read, or the layers stay unknown and keys are listed
        assert (not report["config"]["unread_keys"]) or (unknown == report["layers"])


@pytest.mark.parametrize("name", [name for name in CONFIGS if comparable(name)])
def test_totals_and_cache_bytes(name: str, corpus: Path, tmp_path: Path) -> None:
    row = manifest()[name]
    analysis = analyze(str(folder_of(corpus, name, tmp_path)))
    total = (
        int(row["hf_safetensors_param_total"])
        if row["hf_safetensors_param_total"].isdigit()
        else None
    )
    if total is not None:
        assert analysis.params.total == pytest.approx(total, rel=TOLERANCE)
    growth = row["kv_growth_bytes_per_token_bf16(derived)"]
    assert analysis.cache_totals.kv_bytes_per_token == int(growth)


def of_listing(corpus: Path, name: str, into: Path) -> Analysis:
    checkpoint = load(str(folder_of(corpus, name, into)))
    headers = listing.headers(corpus / "headers" / f"{name}.tsv")
    from dataclasses import replace

    return of_checkpoint(replace(checkpoint, headers=headers))


@pytest.mark.parametrize("name", LISTINGS)
def test_every_listing_is_fully_explained(name: str, corpus: Path, tmp_path: Path) -> None:
    analysis = of_listing(corpus, name, tmp_path)
    proof = analysis.proof
    assert proof.missing == ()
    assert proof.unexpected == ()
    assert proof.status == "proved", proof.findings
    assert proof.unexplained_bytes == 0
    warnings = [item for item in analysis.findings if item.severity != "info"]
    assert warnings == []


def test_kimi_k3_to_the_last_digit(corpus: Path, tmp_path: Path) -> None:
    analysis = of_listing(corpus, "moonshotai__Kimi-K3", tmp_path)
    assert analysis.params.total == 2_779_931_837_184
    assert analysis.params.trunk == 2_779_484_478_208
    assert analysis.bytes.checkpoint == 1_560_860_324_864
    opaque = {name for group in analysis.model.groups for name in group.tensors}
    assert len(opaque) == 168
    assert all(name.startswith(("vision_tower.", "mm_projector.")) for name in opaque)
    assert analysis.cache_totals.kv_bytes_per_token == 27_648
    mixers = [layer["mixer"] for layer in to_json(analysis)["layers"]]
    assert (mixers.count("kda"), mixers.count("mla")) == (69, 24)
    assert mixers[91:] == ["mla", "mla"]
