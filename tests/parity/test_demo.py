"""The demo checkpoint, stored in bf16 and run in fp32, against a model in plain torch."""

import json

import pytest
from safetensors.torch import load_file

from day0.analysis.analyze import analyze
from day0.checkpoint.load import DEMO
from day0.passes.lower import OPTIONAL
from day0.runtime.session import Session
from tests.parity.plain_demo import PlainDemo
from tests.parity.served import check_served, clear_ids
from tests.parity.subjects import TOLERANCE, apart, opened

pytestmark = pytest.mark.skipif(
    not (DEMO / "model.safetensors").is_file(), reason=f"no demo checkpoint in {DEMO.name}"
)
LENGTHS = ((60, 15), (23, 8), (5, 3))  # (prompt, decoded); the index keeps 32 tokens


@pytest.fixture(scope="module", params=[(), tuple(OPTIONAL)], ids=["passes", "no-passes"])
def demo(request: pytest.FixtureRequest) -> tuple[PlainDemo, Session]:
    config = json.loads((DEMO / "config.json").read_text())
    tensors = load_file(DEMO / "model.safetensors")
    return PlainDemo(config, tensors), opened(DEMO, without=request.param)


def test_is_proved_and_needs_no_facts() -> None:
    analysis = analyze("demo")
    assert analysis.proof.status == "proved", analysis.proof.findings
    assert [fact.path for fact in analysis.assumed if fact.decisive] == []


@pytest.mark.parametrize("chunks", [(), (1, 7, 3, 13, 30)], ids=["whole", "chunks"])
def test_prompt(demo: tuple[PlainDemo, Session], chunks: tuple[int, ...], seed: int) -> None:
    plain, session = demo
    ids = clear_ids(plain, 256, 70, seed)
    assert apart(session.hidden(ids.tolist(), chunks=chunks), plain.hidden(ids)) <= TOLERANCE
    assert apart(session.logits(ids.tolist(), chunks=chunks), plain.logits(ids)) <= TOLERANCE


def test_served(demo: tuple[PlainDemo, Session], seed: int) -> None:
    """Three sequences in one ragged step, then decoded together."""
    plain, session = demo
    sequences = [clear_ids(plain, 256, sum(lengths), seed + n) for n, lengths in enumerate(LENGTHS)]
    check_served(plain, session, sequences, [prompt for prompt, _ in LENGTHS])
