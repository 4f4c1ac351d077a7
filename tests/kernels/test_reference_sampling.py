"""Definition of sampling: cuts as transformers', draws that depend on seed and position alone."""

import pytest
import torch

from day0_kernels.sampling.reference import probabilities, sampling, uniform
from tests.kernels.ragged import close, drawn


def sampled(logits, *, temperature=1.0, top_k=0, top_p=1.0, seeds=0, positions=0):
    rows = logits.shape[0]
    token = torch.full((rows,), -1, dtype=torch.int64)
    columns = (
        torch.as_tensor(value).expand(rows)
        for value in (temperature, top_k, top_p, seeds, positions)
    )
    sampling(logits, *columns, token)
    return token


@pytest.mark.hf
@pytest.mark.parametrize("top_k", [0, 1, 5, 40])
@pytest.mark.parametrize("top_p", [0.05, 0.6, 0.95, 1.0])
def test_cuts_as_transformers(seed, top_k, top_p):
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    logits = drawn(seed)(30) * 3
    scores = TemperatureLogitsWarper(0.7)(None, logits.double().unsqueeze(0))
    if top_k:
        scores = TopKLogitsWarper(top_k)(None, scores)
    if top_p < 1:
        scores = TopPLogitsWarper(top_p)(None, scores)
    close(probabilities(logits, 0.7, top_k, top_p), scores.softmax(-1)[0], 1e-12)


def test_greedy_takes_the_first_of_the_largest():
    logits = torch.tensor([[1.0, 4.0, 4.0], [5.0, 0.0, 5.0]])
    assert sampled(logits, temperature=0.0, seeds=3).tolist() == [1, 0]


def test_draws_follow_the_probabilities(seed):
    logits = drawn(seed)(1, 8)
    count = 4000
    drawn_ids = sampled(logits.expand(count, -1), seeds=seed, positions=torch.arange(count))
    expected = logits[0].softmax(0)
    frequency = torch.bincount(drawn_ids, minlength=8) / count
    # five standard deviations of a binomial share
    bound = 5 * (expected * (1 - expected) / count).sqrt() + 1e-3
    assert bool(((frequency - expected).abs() <= bound).all())


def test_a_draw_depends_on_seed_and_position_alone(seed):
    logits = drawn(seed)(6, 50)
    seeds, positions = torch.arange(6) + seed, torch.arange(6) * 17
    together = sampled(logits, top_k=20, top_p=0.9, seeds=seeds, positions=positions)
    order = torch.tensor([4, 0, 5])
    some = sampled(
        logits[order], top_k=20, top_p=0.9, seeds=seeds[order], positions=positions[order]
    )
    assert torch.equal(some, together[order])


def test_cut_ids_are_never_drawn(seed):
    logits = drawn(seed)(1, 12).expand(300, -1)
    ids = sampled(logits, top_k=3, seeds=seed, positions=torch.arange(300))
    assert set(ids.tolist()) <= set(logits[0].topk(3).indices.tolist())
    one = sampled(logits, top_p=1e-9, seeds=seed, positions=torch.arange(300))
    assert set(one.tolist()) == {int(logits[0].argmax())}


def test_uniform_numbers_are_spread(seed):
    numbers = torch.tensor([uniform(seed, position) for position in range(4000)])
    assert float(numbers.min()) >= 0
    assert float(numbers.max()) < 1
    assert abs(float(numbers.mean()) - 0.5) < 5 * (1 / 12 / 4000) ** 0.5
    assert len(set(numbers.tolist())) > 3900
