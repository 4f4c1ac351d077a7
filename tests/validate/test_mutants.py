"""Each deliberate fault makes its cell fail, which names the layer and the kind of the operator;
without faults nothing fails, whatever the seed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from day0.runtime.opening import Opened, open_model
from day0.validate import lengths
from day0.validate.matrix import CELLS, cells_called
from day0.validate.subject import Subject
from tests import surgery
from tests import tiny as tinies
from tests.validate import mutants_reader, mutants_state
from tests.validate.mutant import Mutant

pytestmark = [pytest.mark.hf, pytest.mark.slow]

MUTANTS = (*mutants_state.MUTANTS, *mutants_reader.MUTANTS)
Open = Callable[[str], Opened]
# by seed; those with an indexer cost most
KINDS = ("kimi_linear", "llama", "glm_moe_dsa", "gpt_oss", "kimi_linear",
         "llama", "glm5_next", "gpt_oss", "kimi_linear", "llama")  # fmt: skip
FEWEST = {"glm5_next": 4, "glm_moe_dsa": 3}


@pytest.fixture(scope="module")
def open_tiny(
    tiny: Callable[..., tinies.TinyCheckpoint], tmp_path_factory: pytest.TempPathFactory
) -> Open:
    """A tiny model of a type, or of a variant that a mutant needs."""
    base = tmp_path_factory.mktemp("validated")
    folders: dict[str, Path] = {}

    def folder_of(kind: str) -> Path:
        if kind == "narrow-bias":
            return _narrow_bias(surgery.copy(tiny("deepseek_v3").folder, base / kind))
        # a copy of its own, since faults of the reader leave changed configs beside it
        name, words = ("llama", {"tie_word_embeddings": True}) if kind == "tied" else (kind, {})
        return surgery.copy(tiny(name, **words).folder, base / kind)

    def give(kind: str) -> Opened:
        if kind == "demo":
            return open_model("demo", quant="fp32", backend="reference")
        if kind not in folders:
            folders[kind] = folder_of(kind)
        return open_model(str(folders[kind]), quant="fp32", backend="reference")

    return give


def _narrow_bias(folder: Path) -> Path:
    """Selection biases between 6.8 and 7.1, where bf16 has eight values (field case 23)."""

    path = folder / "model.safetensors"
    found = load_file(path)
    for name, value in found.items():
        if name.endswith("e_score_correction_bias"):
            low, high = value.min(), value.max()
            found[name] = 6.8 + 0.3 * (value - low) / (high - low)
    save_file(found, path, metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_fault_is_found_and_named(
    mutant: Mutant, open_tiny: Open, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    opened = open_tiny(mutant.kind)
    expected = mutant.layer(opened.model)
    opened = mutant.switch(monkeypatch, opened)
    (cell,) = cells_called([mutant.cell], with_oracle=mutant.cell == "oracle")
    found = cell.look(Subject(opened, seed=seed))
    assert found.status == "fail", found.detail
    named = {found.family, *found.suspects}
    assert named & set(mutant.families), found.detail
    assert len(named - {""}) <= 12, found.detail
    assert found.layer == expected or mutant.cell == "formats", found.detail


def test_an_offset_that_wraps_fails_the_lengths(
    open_tiny: Open, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    opened = mutants_state.WRAPPED(monkeypatch, open_tiny("qwen3"))
    found = list(lengths.sweep(Subject(opened, seed=seed, longest=200)))
    assert {row.tokens: row.status for row in found}[200] == "fail"
    assert all(row.status == "pass" for row in found if row.tokens < 128)


def test_there_are_twenty_faults_or_more() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_without_a_fault_nothing_fails(number: int, open_tiny: Open, run_seed: int) -> None:
    """Ten seeds in a row, over types with every kind of cache."""
    kind = KINDS[number]
    folder = open_tiny(kind).folder
    opened = open_model(str(folder), quant="fp32", backend="reference", layers=FEWEST.get(kind, 2))
    subject = Subject(opened, seed=run_seed + number, longest=120)
    outcomes = {cell.id: cell.look(subject) for cell in CELLS}
    failed = {name: found.detail for name, found in outcomes.items() if found.status == "fail"}
    assert failed == {}
    skipped = {name for name, found in outcomes.items() if found.status == "skip"}
    assert skipped <= {"implementations", "graph", "streams", "evict"}


@pytest.mark.parametrize("kind", ["kimi_linear", "glm_moe_dsa", "llama", "narrow-bias", "tied"])
def test_the_oracle_agrees(kind: str, open_tiny: Open, seed: int) -> None:
    (cell,) = cells_called(["oracle"], with_oracle=True)
    found = cell.look(Subject(open_tiny(kind), seed=seed))
    assert found.status == "pass", found.detail
