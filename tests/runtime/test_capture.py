"""Decode steps in fixed buffers: padded as for a CUDA graph, they compute what the step computes
and touch nothing live. The graphs themselves need a GPU."""

import pytest
import torch

from day0.checkpoint.load import DEMO
from day0.runtime.capture import BUCKETS, Padding
from day0.runtime.engine import Engine
from day0.runtime.sampling import Sampling
from day0.runtime.session import Session
from tests.parity.subjects import TOLERANCE, opened

PROMPTS = ((3, 1, 4, 1, 5, 9, 2, 6), (27, 18), (14, 14, 2, 13, 56))


def test_buckets_grow() -> None:
    assert list(BUCKETS) == sorted(set(BUCKETS))
    assert all(after <= 2 * before for before, after in zip(BUCKETS, BUCKETS[1:], strict=False))


@pytest.mark.parametrize("size", [3, 4, 8])
def test_a_padded_step_computes_the_same(size: int) -> None:
    session = opened(DEMO, without=("narrow",))
    name = session.logits_name
    widths = dict.fromkeys(session.limits.num_pages, 9)
    steps = []

    def run(step, inputs):
        before = live(session)
        found = session.run(step, inputs)[name]
        if step.phase == "prefill":
            return found
        after = live(session)
        restore(session, before)
        padding = Padding(size, widths, torch.device("cpu"))
        padding.fill(step)
        fixed = padding.step
        more = size - step.num_sequences
        wider = {
            key: torch.cat((value, value.new_zeros(more, *value.shape[1:])))
            for key, value in inputs.items()
        }
        again = session.run(fixed, wider)[name][: step.num_sequences]
        steps.append(float((again - found).abs().max() / found.abs().max()))
        for key, tensor in live(session).items():
            assert torch.allclose(tensor[1:], after[key][1:], rtol=1e-5, atol=1e-5), key
        return found

    engine = Engine(run, session.limits, torch.device("cpu"), history=session.history)
    for prompt in PROMPTS:
        engine.add(prompt, Sampling(max_new_tokens=4))
    for _ in engine.serve():
        pass
    assert len(steps) == 3
    assert max(steps) <= TOLERANCE


def live(session: Session) -> dict[tuple[str, str], torch.Tensor]:
    """All caches; number 0 of each is padding."""
    return {
        (cache, part): tensor.clone()
        for cache, parts in session.storage.parts.items()
        for part, tensor in parts.items()
    }


def restore(session: Session, tensors: dict[tuple[str, str], torch.Tensor]) -> None:
    for (cache, part), tensor in tensors.items():
        session.storage.parts[cache][part].copy_(tensor)
