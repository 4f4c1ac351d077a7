"""A schedule carried out: any order that its lanes allow gives the bits of one op after another.
On a GPU the lanes are streams, in eager steps and inside CUDA graphs."""

from dataclasses import replace

import pytest
import torch

from day0.checkpoint.load import DEMO
from day0.runtime.api import Loaded, load
from day0.runtime.binder import Frame
from day0.runtime.capture import BUCKETS, Padding
from day0.runtime.engine import Engine
from day0.runtime.program import Program
from day0.runtime.sampling import Sampling
from day0.runtime.session import Session
from day0.runtime.step import Step
from tests.parity.subjects import opened
from tests.schedules import any_order, chooser

PROMPTS = ((3, 1, 4, 1, 5, 9, 2, 6), (27, 18), (14, 14, 2, 13, 56))
GPU_MODELS = (
    ("demo", {}),
    ("catalog:moonshotai--kimi-linear-48b-a3b-instruct", {"dummy": True, "layers": 5}),
    ("catalog:zai-org--glm-5.3-flash", {"dummy": True, "layers": 5}),
)


def shuffled(program: Program, step: Step, inputs, seed: int) -> dict[str, torch.Tensor]:
    """One step of the program with its ops in another order that the lanes allow; each lane
    gathers for itself, as on a GPU."""
    values = dict(inputs)
    frames = [Frame(step, values, {}) for _ in range(program.order.num_lanes)]
    with torch.no_grad():
        for number in any_order(program.order, chooser(seed)):
            program.calls[number].run(frames[program.order.lane[number]])
    return {name: values[name] for name in program.graph.outputs}


def served(session: Session, run) -> list[torch.Tensor]:
    """Logits of every step of a small serving, prompts in chunks, and then all caches."""
    steps: list[torch.Tensor] = []

    def kept(step, inputs):
        steps.append(run(step, inputs)[session.logits_name])
        return steps[-1]

    limits = replace(session.limits, chunk=6)
    engine = Engine(kept, limits, torch.device("cpu"), history=session.history)
    for prompt in PROMPTS:
        engine.add(prompt, Sampling(max_new_tokens=5))
    for _ in engine.serve():
        pass
    caches = [tensor for parts in session.storage.parts.values() for tensor in parts.values()]
    return [*steps, *caches]


def test_any_order_of_the_lanes_gives_the_same_bits(seed: int) -> None:
    usual, other = opened(DEMO), opened(DEMO)
    lanes = [program.order.num_lanes for program in other.programs.values()]
    assert max(lanes) > 1
    expected = served(usual, usual.run)
    moved = []

    def run(step, inputs):
        program = other.programs[step.phase]
        number = seed + len(moved)
        moved.append(any_order(program.order, chooser(number)) != sorted(range(len(program.calls))))
        return shuffled(program, step, inputs, number)

    found = served(other, run)
    assert any(moved)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)


def of_gpu(name: str, options: dict, **more) -> Loaded:
    return load(name, device="cuda", max_context=2048, max_batch=4, **options, **more)


def padded(session: Session, step: Step, inputs) -> dict[str, torch.Tensor]:
    """A decode step on the rows that its graph has, launched op by op."""
    count = step.num_sequences
    size = next(size for size in BUCKETS if size >= count)
    padding = Padding(size, session._table_widths, session.device)
    padding.fill(step)
    wider = {
        name: torch.cat((value, value.new_zeros(size - count, *value.shape[1:]))).cuda()
        for name, value in inputs.items()
    }
    found = session.programs["decode"].run(padding.step, wider)
    return {name: value[:count] for name, value in found.items()}


def logits_of(loaded: Loaded, length: int, *, graphs: bool) -> list[torch.Tensor]:
    session = loaded.session
    vocab = session.model.spec.vocab_size
    generator = torch.Generator().manual_seed(7)
    steps = []

    def run(step, inputs):
        eager = step.phase == "decode" and not graphs
        found = padded(session, step, inputs) if eager else session.run(step, inputs)
        steps.append(found[session.logits_name].clone())
        return found[session.logits_name]

    engine = Engine(run, session.limits, torch.device("cpu"), history=session.history)
    for rows in (length, length // 3, 5):
        prompt = torch.randint(vocab, (rows,), generator=generator).tolist()
        engine.add(tuple(prompt), Sampling(max_new_tokens=12))
    for _ in engine.serve():
        pass
    return steps


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "options"), GPU_MODELS, ids=lambda value: str(value)[-24:])
def test_streams_and_graphs_change_no_bit(name: str, options: dict) -> None:
    """Lanes on and off, captured and eager: four ways, the same logits in every step."""
    ways = []
    for without in ((), ("streams",)):
        loaded = of_gpu(name, options, without=without)
        lanes = loaded.session.programs["decode"].order.num_lanes
        assert lanes == (1 if without else 2)
        for graphs in (True, False):
            ways.append(logits_of(loaded, 900, graphs=graphs))
        del loaded
        torch.cuda.empty_cache()
    for other in ways[1:]:
        assert len(other) == len(ways[0])
        for ours, theirs in zip(other, ways[0], strict=True):
            assert torch.isfinite(ours).all()
            assert torch.equal(ours, theirs)
