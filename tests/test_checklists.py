"""Every checklist has the form of checklists/README.md, and every proof in it resolves."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from day0.analysis.checklist import STAGES
from tests import checklists
from tests.corpus import ROOT

STAGED = {path.stem for path in (ROOT / "checklists" / "stages").glob("*.yaml")}
FILES = sorted((ROOT / "checklists").rglob("*.yaml"))
GOOD = {
    "id": "every-key-is-read",
    "ask": "Is every key of the config read?",
    "why": "An unread key may name a mechanism that the graph lacks.",
    "proof": "analysis:config",
}
OPS = Path("checklists/ops/kda.yaml")


def test_every_checklist_is_sound() -> None:
    assert FILES
    found: list[str] = []
    for path in FILES:
        content = yaml.safe_load(path.read_text())
        found += checklists.complaints(path.relative_to(ROOT), content, ROOT)
    assert found == []


def test_the_stages_are_those_of_the_work() -> None:
    assert set(STAGES) == STAGED


def test_no_item_is_left_to_all_facts_or_all_caches() -> None:
    """They are too much to read: an item names the fact, the attribute or the check it means."""
    proofs = [item["proof"] for path in FILES for item in yaml.safe_load(path.read_text())["items"]]
    assert len(proofs) > 100
    assert {"analysis:semantics", "analysis:caches", "analysis:facts"}.isdisjoint(proofs)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"id": "Every Key"}, "must be lower case words"),
        ({"why": ""}, "why must be a text"),
        ({"who": "me"}, "unknown key who"),
        ({"when": "fp8"}, "when must be a mapping"),
        ({"when": {"gpu": "h200"}}, "when asks for 'gpu'; it may ask for recipe"),
        ({"when": {"recipe": "fp9"}}, "when asks for recipe 'fp9', which there is not"),
        ({"when": {"family": ["kda", "kdaa"]}}, "when asks for family 'kdaa'"),
        ({"at_most": 3}, "at_most bounds a metric, and the proof is none"),
        ({"at_most": "3", "proof": "metric:tpot_ms"}, "at_most must be a number"),
        ({"proof": "analysis:inventory.spelling"}, "is no check of day0.analysis"),
        ({"proof": "analysis:graph.attr.colour"}, "no operator family has colour"),
        ({"proof": "analysis:graph.slot.beta_scale"}, "no operator family has beta_scale"),
        ({"proof": "analysis:facts.kda.colour"}, "no mechanism settles a fact kda.colour"),
        ({"proof": "trust:me"}, "must begin with"),
        ({"proof": "analysis:secrets"}, "no top-level key"),
        ({"proof": "metric:speed"}, "no metric of run"),
        ({"proof": "metric:nothing.prefill.rel_rms@long"}, "has no nothing/cases.py"),
        ({"proof": "metric:kda.rel_rms@long"}, "must be FAMILY.IMPL.NAME@CASE"),
        ({"proof": "test:tests/nothing.py::test_x"}, "no file under tests/"),
        ({"proof": "test:day0/errors.py::Day0Error"}, "no file under tests/"),
        ({"proof": "test:tests/test_checklists.py::test_nothing"}, "has no test 'test_nothing'"),
    ],
)
def test_a_bad_item_is_reported(change: dict[str, Any], complaint: str) -> None:
    content = {"family": "kda", "items": [GOOD | change]}
    found = checklists.complaints(OPS, content, ROOT)
    assert len(found) == 1
    assert complaint in found[0]
    assert found[0].startswith("checklists/ops/kda.yaml: item 1: ")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ([], "a mapping is expected"),
        ({"family": "gdn", "items": [GOOD]}, "the file's name says kda"),
        ({"family": "kda", "items": []}, "at least one item"),
        ({"family": "kda", "items": [GOOD], "notes": 1}, "they must be family and items"),
        ({"family": "kda", "items": [GOOD, GOOD]}, "stands twice"),
        ({"family": "kda", "items": [GOOD], "covers": "gate"}, "covers must be a list"),
    ],
)
def test_a_bad_file_is_reported(content: Any, complaint: str) -> None:
    found = checklists.complaints(OPS, content, ROOT)
    assert len(found) == 1
    assert complaint in found[0]


@pytest.mark.parametrize(
    "proof",
    [
        "analysis:proof",
        "analysis:parallel",
        "analysis:inventory.reuse",
        "analysis:graph.attr.beta_scale",
        "analysis:graph.slot.sink",
        "analysis:facts.kda.lower_bound",
        "analysis:facts.mla.scale",
        "analysis:facts.*.rope_pairing",
        "metric:jit_compiles_after_ready",
        "test:tests/test_checklists.py::test_a_good_proof_resolves",
    ],
)
def test_a_good_proof_resolves(proof: str) -> None:
    content = {"stage": "release", "items": [GOOD | {"proof": proof, "when": {"recipe": "fp8"}}]}
    assert checklists.complaints(Path("checklists/stages/release.yaml"), content, ROOT) == []


def test_cases_and_schema_are_read_where_they_exist(tmp_path: Path) -> None:
    cases = tmp_path / "kernels" / "day0_kernels" / "kda" / "cases.py"
    schema = tmp_path / "day0" / "report" / "schema.py"
    for path in (cases, schema):
        path.parent.mkdir(parents=True)
    cases.write_text('CASES = (Case(name="long", tokens=4096),)\n')
    schema.write_text('ANALYSIS_KEYS: tuple[str, ...] = ("proof", "brand_new")\n')
    assert checklists.unresolved("metric:kda.prefill.rel_rms@long", tmp_path) == ""
    assert "has no 'short'" in checklists.unresolved("metric:kda.prefill.rel_rms@short", tmp_path)
    assert checklists.unresolved("analysis:brand_new", tmp_path) == ""
    assert "no top-level key" in checklists.unresolved("analysis:older", tmp_path)
    schema.write_text("KEYS = ()\n")
    with pytest.raises(LookupError, match="must assign ANALYSIS_KEYS"):
        checklists.unresolved("analysis:proof", tmp_path)
