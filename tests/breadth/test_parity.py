"""Logits (hidden rows where a class has no head) of every type against transformers, in fp32 on the
definitions: a prompt in one piece, and the same in odd chunks."""

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from tests.parity.subjects import TOLERANCE, apart, opened  # noqa: E402
from tests.tiny.checkpoint import EAGER  # noqa: E402
from tests.tiny.choices import unclear_positions, watched_choices  # noqa: E402

from . import checkpoints  # noqa: E402
from .conftest import Made  # noqa: E402
from .test_types import OTHERS  # noqa: E402

pytestmark = [pytest.mark.hf, pytest.mark.slow]

TOKENS = 26  # more than two windows of 9
CHUNKS = (1, 7, 3, 5)
ROUNDING = 4.0  # times the oracle's own distance to its fp64, where that is the larger bound
Make = Callable[[str], Made]


@pytest.mark.parametrize("type_name", OTHERS)
def test_rows(type_name: str, made: Make, seed: int) -> None:
    checkpoint = made(type_name)
    kind = checkpoints.class_of(type_name)
    oracle = kind.from_pretrained(checkpoint.folder, dtype=torch.float32, **EAGER).eval()
    vocab = oracle.config.get_text_config(decoder=True).vocab_size
    ids = torch.randint(5, vocab, (TOKENS,), generator=torch.Generator().manual_seed(seed))
    said, clear = clear_rows(oracle, ids)
    assert clear >= 3  # the first choices of experts
    exact, _ = clear_rows(oracle.double(), ids)
    bound = max(TOLERANCE, ROUNDING * apart(said[:clear], exact[:clear]))
    assert bound <= 10 * TOLERANCE
    session = opened(checkpoint.folder)
    ours = session.logits if oracle.get_output_embeddings() is not None else session.hidden
    assert apart(ours(tuple(ids.tolist()))[:clear], said[:clear]) <= bound
    assert apart(ours(tuple(ids.tolist()), chunks=CHUNKS)[:clear], said[:clear]) <= bound


def clear_rows(oracle: torch.nn.Module, ids: torch.Tensor) -> tuple[torch.Tensor, int]:
    """(rows, how many of them come before the first top-k choice that rounding may tip)."""
    unclear = torch.zeros(TOKENS, dtype=torch.bool)

    def note(scores: torch.Tensor, k: int) -> None:
        unclear.logical_or_(unclear_positions(scores, k, TOKENS))

    with watched_choices(note):
        found = rows(oracle, ids)
    return found, int(unclear.int().argmax()) if unclear.any() else TOKENS


def rows(oracle: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """[T, V] logits, or [T, H] after the final norm."""
    with torch.no_grad():
        output = oracle(input_ids=ids[None])
    logits = getattr(output, "logits", None)
    return (output.last_hidden_state if logits is None else logits)[0].float()
