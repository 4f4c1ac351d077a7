"""The kernels over the engine's own pages: sinks and sliding windows whose pages are given back,
chunked prompts and decode, beside the definitions."""

from dataclasses import replace

import pytest
import torch

from day0.checkpoint.load import load
from day0.ir.recipe import RECIPES
from day0.models.read import read_model
from day0.runtime.engine import Engine
from day0.runtime.sampling import Sampling
from day0.runtime.session import Session, Sizes, open_session

pytest.importorskip("triton")
pytestmark = [
    pytest.mark.hf,
    pytest.mark.skipif(torch.cuda.is_available(), reason="tests/parity runs whole models there"),
]
PAGED = "day0_kernels.gqa.attention:gqa_paged"
SIZES = Sizes(tokens=160, sequences=2, chunk=20)


def served(session: Session, prompts) -> list[torch.Tensor]:
    """Logits of every step, of two sequences that run out of step."""
    found = []

    def run(step, inputs):
        out = session.run(step, inputs)[session.logits_name]
        found.append(out)
        return out

    engine = Engine(run, session.limits, torch.device("cpu"), history=session.history)
    for prompt in prompts:
        engine.add(prompt, Sampling(max_new_tokens=2))
    for _ in engine.serve():
        pass
    return found


def test_pages_of_the_engine(tiny, run_seed: int) -> None:
    folder = tiny("gpt_oss").folder
    checkpoint = load(str(folder))
    model = read_model(checkpoint, None).model
    plain = open_session(
        model, RECIPES["fp32"], headers=checkpoint.headers, folder=folder, sizes=SIZES
    )
    lowered = {}
    for phase, low in plain.lowered.items():
        choices = {
            name: replace(one, entry=PAGED) if one.family == "gqa" else one
            for name, one in low.choices.items()
        }
        lowered[phase] = replace(low, choices=choices)
    ours = Session(
        model, RECIPES["fp32"], weights=plain._weights, lowered=lowered, sizes=SIZES,
        device=torch.device("cpu"),
    )  # fmt: skip
    entries = {call.entry for call in ours.programs["decode"].calls}
    assert PAGED in entries
    generator = torch.Generator().manual_seed(run_seed)
    prompts = [
        tuple(torch.randint(5, 97, (count,), generator=generator).tolist()) for count in (25, 4)
    ]
    wanted, found = served(plain, prompts), served(ours, prompts)
    assert len(found) == len(wanted) >= 3
    for a, b in zip(found, wanted, strict=True):
        assert float((a - b).abs().max() / b.abs().max()) < 1e-4
