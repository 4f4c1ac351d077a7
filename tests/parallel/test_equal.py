"""Several ranks say what one says: logits, tokens, prompts in one piece and in several."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.parallel.models import (  # noqa: E402
    TINY,
    TOLERANCE,
    Said,
    apart,
    on_ranks,
    prompts_for,
    said,
    session_of,
)
from tests.parallel.ranks import run_ranks  # noqa: E402
from tests.tiny import TinyCheckpoint  # noqa: E402

FOUR = ("kimi_linear", "glm5_next", "deepseek_v32", "qwen3_next")
MORE = ("minimax", "minimax_m3", "bailing_hybrid")
SENT = {"exchange": True, "chunks": 2}
# mesh, and what sets its cases apart -> (model, how experts get their rows)
CASES: Mapping[str, tuple[tuple[str, Mapping[str, Any]], ...]] = {
    "tp2": tuple((name, {}) for name in ("demo", *FOUR)),
    # slopes by head number, gates and lists of a head
    "tp2-more": tuple((name, {}) for name in MORE),
    "tp2ep2": (("demo", {}), ("demo", SENT), ("glm5_next", SENT), ("deepseek_v32", {})),
    "tp4ep2": (("kimi_linear", {}), ("qwen3_next", SENT)),
}
SLOW = ("tp2-more", "tp4ep2")
EVERY = [(mesh, number) for mesh, cases in CASES.items() for number in range(len(cases))]


@pytest.fixture(scope="module")
def folder(tiny: Callable[..., TinyCheckpoint]) -> Callable[[str], str]:
    return lambda name: name if name == "demo" else str(tiny(name, **TINY[name]).folder)


@pytest.fixture(scope="module")
def several(folder: Callable[[str], str], run_seed: int) -> Callable[[str], list[list[Said]]]:
    """Of a mesh what every rank said of every case, run once."""
    known: dict[str, list[list[Said]]] = {}

    def of(mesh: str) -> list[list[Said]]:
        if mesh not in known:
            cases = [(folder(name), how) for name, how in CASES[mesh]]
            known[mesh] = run_ranks(mesh.partition("-")[0], on_ranks, cases, run_seed)
        return known[mesh]

    return of


@pytest.fixture(scope="module")
def alone(folder: Callable[[str], str], run_seed: int) -> Callable[[str], Said]:
    known: dict[str, Said] = {}

    def of(name: str) -> Said:
        if name not in known:
            session = session_of(folder(name), None)
            known[name] = said(session, prompts_for(session, run_seed))
        return known[name]

    return of


@pytest.mark.parametrize(
    ("mesh", "number"),
    [
        pytest.param(
            mesh, number, marks=[pytest.mark.slow] if mesh in SLOW else [],
            id=f"{mesh}-{CASES[mesh][number][0]}{'-sent' if CASES[mesh][number][1] else ''}",
        )
        for mesh, number in EVERY
    ],
)  # fmt: skip
def test_logits_equal_one_rank(
    several: Callable[[str], list[list[Said]]],
    alone: Callable[[str], Said],
    mesh: str,
    number: int,
) -> None:
    one = alone(CASES[mesh][number][0])
    ranks = [found[number] for found in several(mesh)]
    for got in ranks:
        assert max(map(apart, got.logits, one.logits)) <= TOLERANCE
        assert apart(got.chunked, one.chunked) <= TOLERANCE
        assert got.ids == one.ids
    # what every rank samples from is the same to the bit, or their sequences would part
    first = ranks[0]
    for got in ranks[1:]:
        assert all(map(torch.equal, got.logits, first.logits))
