"""The next token: greedy and sampled, cuts, seeds, stops."""

import math

import pytest
import torch

from day0.errors import Day0Error
from day0.runtime.sampling import Sampling, next_token


def draws(logits: torch.Tensor, count: int = 400, **options) -> list[int]:
    """Tokens at `count` positions."""
    sampling = Sampling(**options)
    return [next_token(logits, sampling, position=n, produced=0) for n in range(count)]


@pytest.fixture
def logits(seed: int) -> torch.Tensor:
    print("seed", seed)
    return torch.randn(50, generator=torch.Generator().manual_seed(seed)) * 2


def test_greedy(logits: torch.Tensor) -> None:
    assert set(draws(logits, 5)) == {int(logits.argmax())}
    assert set(draws(logits.bfloat16(), 5)) == {int(logits.bfloat16().argmax())}


@pytest.mark.parametrize("kept", [1, 3, 50, 80])
def test_top_k(logits: torch.Tensor, kept: int) -> None:
    best = set(logits.topk(min(kept, 50)).indices.tolist())
    found = set(draws(logits, temperature=5.0, top_k=kept))
    assert found <= best
    assert len(found) > min(kept, 50) // 2


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9, 1.0])
def test_top_p(logits: torch.Tensor, share: float) -> None:
    """The fewest tokens that together have the share, the one that crosses it included."""
    chances = logits.softmax(-1)
    kept, total = set(), 0.0
    for token in chances.argsort(descending=True).tolist():
        kept.add(token)
        total += float(chances[token])
        if total >= share:
            break
    found = set(draws(logits, temperature=1.0, top_p=share))
    assert found <= kept
    assert int(logits.argmax()) in found


def test_cuts_come_after_the_temperature() -> None:
    """At temperature 10 the best token has less than half: top_p 0.5 keeps two."""
    logits = torch.tensor([3.0, 2.0, 1.0]).repeat_interleave(1)
    assert set(draws(logits, temperature=0.5, top_p=0.5)) == {0}
    assert set(draws(logits, temperature=10.0, top_p=0.5)) == {0, 1}


def test_frequencies_follow_the_chances() -> None:
    chances = torch.tensor([0.5, 0.3, 0.15, 0.05])
    count = 4000
    found = torch.bincount(torch.tensor(draws(chances.log() * 2, count, temperature=2.0, seed=5)))
    for chance, number in zip(chances.tolist(), found.tolist(), strict=True):
        spread = math.sqrt(count * chance * (1 - chance))
        assert abs(number - count * chance) < 5 * spread


def test_a_draw_depends_on_seed_and_position_alone(logits: torch.Tensor) -> None:
    first = draws(logits, 60, temperature=1.5, seed=3)
    torch.manual_seed(99)
    assert draws(logits, 60, temperature=1.5, seed=3) == first
    assert draws(logits, 60, temperature=1.5, seed=4) != first
    one = Sampling(temperature=1.5, seed=3)
    assert next_token(logits, one, position=17, produced=9) == first[17]
    assert len(set(first)) > 5


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_no_stop_id_before_the_minimum(logits: torch.Tensor, temperature: float) -> None:
    best = tuple(logits.topk(3).indices.tolist())
    one = Sampling(temperature=temperature, stop_ids=best, min_new_tokens=2, max_new_tokens=9)
    early = {next_token(logits, one, position=n, produced=n % 2) for n in range(200)}
    assert not early & set(best)
    late = {next_token(logits, one, position=n, produced=2) for n in range(200)}
    assert late & set(best)
    assert bool(logits.isfinite().all())  # the caller's logits are left alone


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_new_tokens", 0), ("min_new_tokens", -1), ("min_new_tokens", 17), ("temperature", -0.1),
     ("temperature", float("inf")), ("temperature", float("nan")), ("top_k", -1), ("top_p", 0.0),
     ("top_p", 1.1), ("top_p", float("nan"))],
)  # fmt: skip
def test_nonsense_is_refused(name: str, value: float) -> None:
    with pytest.raises(Day0Error, match=f"{name} is {value}; it must be ") as caught:
        Sampling(**{name: value}).check()
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_the_borders_are_allowed() -> None:
    Sampling(max_new_tokens=1, min_new_tokens=1, temperature=0.0, top_k=0, top_p=1.0).check()
