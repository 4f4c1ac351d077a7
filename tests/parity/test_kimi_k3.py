"""A tiny Kimi-K3, stored plainly and with MXFP4 experts, against a model in plain torch."""

from pathlib import Path

import pytest

from day0.analysis.analyze import analyze
from day0.passes.lower import OPTIONAL
from day0.runtime.session import Session
from tests.parity.kimi_k3_files import V, write
from tests.parity.plain_kimi_k3 import PlainKimiK3
from tests.parity.served import check_served, clear_ids
from tests.parity.subjects import TOLERANCE, apart, opened

LENGTHS = ((41, 12), (17, 8), (5, 3))  # (prompt, decoded)


@pytest.fixture(
    scope="module",
    params=[(False, ()), (False, tuple(OPTIONAL)), (True, ())],
    ids=["plain", "no-passes", "mxfp4"],
)
def kimi(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, run_seed: int
) -> tuple[Path, PlainKimiK3, Session]:
    folder = tmp_path_factory.mktemp("kimi_k3") / "tiny"
    packed, without = request.param
    plain = PlainKimiK3(**write(folder, run_seed, packed=packed))
    return folder, plain, opened(folder, without=without)


def test_is_proved_and_needs_no_facts(kimi) -> None:
    analysis = analyze(str(kimi[0]))
    assert analysis.proof.status == "proved", analysis.proof.findings
    assert [fact.path for fact in analysis.assumed if fact.decisive] == []


@pytest.mark.parametrize("chunks", [(), (1, 7, 3, 13)], ids=["whole", "chunks"])
def test_prompt(kimi, chunks: tuple[int, ...], seed: int) -> None:
    _, plain, session = kimi
    ids = clear_ids(plain, V, 53, seed)
    assert apart(session.hidden(ids.tolist(), chunks=chunks), plain.hidden(ids)) <= TOLERANCE
    assert apart(session.logits(ids.tolist(), chunks=chunks), plain.logits(ids)) <= TOLERANCE


def test_served(kimi, seed: int) -> None:
    """Three sequences in ragged chunks and decode steps together."""
    _, plain, session = kimi
    sequences = [clear_ids(plain, V, sum(lengths), seed + n) for n, lengths in enumerate(LENGTHS)]
    check_served(plain, session, sequences, [prompt for prompt, _ in LENGTHS])


def test_the_other_latent_eps(kimi, seed: int) -> None:
    """Two loaders give the latent norms rms_norm_eps: --facts can say so."""
    folder, plain, session = kimi
    other = PlainKimiK3(plain.config, plain.tensors, latent_eps=plain.eps)
    stated = opened(folder, {"mla.latent_norm_eps": plain.eps})
    ids = clear_ids(plain, V, 19, seed)
    assert apart(stated.logits(ids.tolist()), other.logits(ids)) <= TOLERANCE
    assert apart(session.logits(ids.tolist()), other.logits(ids)) > TOLERANCE
