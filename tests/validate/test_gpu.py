"""The cells that need a GPU, with the implementations chosen there."""

from collections.abc import Callable

import pytest

from day0.runtime.opening import open_model
from day0.validate.matrix import CELLS, cells_called
from day0.validate.subject import Subject
from tests import tiny as tinies
from tests.validate.mutants_state import MUTANTS

pytestmark = [pytest.mark.gpu, pytest.mark.hf]
Tiny = Callable[..., tinies.TinyCheckpoint]


@pytest.mark.parametrize("kind", ["kimi_linear", "glm_moe_dsa", "llama"])
def test_nothing_fails(kind: str, tiny: Tiny, seed: int) -> None:
    opened = open_model(str(tiny(kind).folder), quant="fp32", device="cuda")
    outcomes = {cell.id: cell.look(Subject(opened, seed=seed)) for cell in CELLS}
    assert {n: f.detail for n, f in outcomes.items() if f.status == "fail"} == {}


def test_a_capture_that_writes_live_state_is_found(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    mutant = next(m for m in MUTANTS if m.name == "capture writes live state")
    opened = open_model(str(tiny("kimi_linear").folder), quant="fp32", device="cuda")
    subject = Subject(opened, seed=seed)
    if subject.session().graphs is None:
        pytest.skip("an operator asks the host: nothing is captured")
    mutant.switch(monkeypatch, opened)
    (cell,) = cells_called(["graph"], with_oracle=False)
    assert cell.look(subject).status == "fail"
