"""A model_type nobody has seen: mechanisms are recognised and run with equal logits, or the run
refuses and names the fact that no file states."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from day0.checkpoint.load import load
from day0.errors import NotSupported
from day0.models.read import guesses, read_model
from tests import surgery
from tests import tiny as tinies
from tests.parity.subjects import drawn, opened

pytestmark = pytest.mark.hf

Tiny = Callable[..., tinies.TinyCheckpoint]
RUN = """kimi_linear qwen3_next qwen3_5 qwen3_5_moe olmo_hybrid lara_mini bailing_hybrid glm5_next
         llama qwen2 qwen3 qwen3_moe mixtral mistral""".split()
REFUSED = "deepseek_v3 deepseek_v32 glm_moe_dsa".split()
TOKENS = 40


def check(
    folder: Path,
    checkpoint: tinies.TinyCheckpoint,
    seed: int,
    stated: Mapping[str, Any] | None = None,
) -> None:
    """Logits, or hidden rows for a class without a head, over a prompt."""
    oracle = tinies.model(checkpoint)
    expected = drawn(oracle, TOKENS, 0, seed)
    assert expected.clear > TOKENS // 2
    session = opened(folder, stated)
    if expected.has_head:
        expected.check(session.logits(expected.ids), "logits")
    else:
        expected.check(session.hidden(expected.ids), "hidden")


@pytest.mark.parametrize("kind", RUN)
def test_runs(kind: str, tiny: Tiny, tmp_path: Path, seed: int) -> None:
    checkpoint = tiny(kind)
    renamed = tinies.rename(checkpoint, tmp_path / "renamed")
    assert guesses(read_model(load(str(renamed.folder))).model) == ()
    check(renamed.folder, checkpoint, seed)


@pytest.mark.parametrize("kind", REFUSED)
def test_refuses_and_runs_with_stated_facts(
    kind: str, tiny: Tiny, tmp_path: Path, seed: int
) -> None:
    """Exit 4 with YAML of what is assumed; with it, corrected where untrue, equal logits."""
    checkpoint = tiny(kind)
    renamed = tinies.rename(checkpoint, tmp_path / "renamed").folder
    # transformers writes the word for one of the types; released files do not have it
    surgery.change_config(renamed, lambda words: words.pop("rope_interleave", None))
    with pytest.raises(NotSupported) as caught:
        opened(renamed)
    assert caught.value.exit_code == 4
    assert "rope_pairing" in caught.value.message
    printed = yaml.safe_load(caught.value.hint.partition("\n")[2])
    assert all(path in caught.value.message for path in printed)
    true = {path: fact_of(checkpoint, path) for path in printed}
    check(renamed, checkpoint, seed, true)


def fact_of(checkpoint: tinies.TinyCheckpoint, path: str) -> Any:
    """The value that the type itself gives a fact."""
    return read_model(load(str(checkpoint.folder))).model.facts[path].value
