"""Preparing runs padding of every shape: all kinds of ops, and nothing that a request owns."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from day0.checkpoint.load import DEMO
from day0.passes.warm_up import compiled, distinct
from day0.runtime.api import load
from day0.runtime.engine import Engine
from day0.runtime.prepare import lengths, padding_inputs, padding_step, prepare, steps_of
from day0.runtime.sampling import Sampling
from tests.corpus import ROOT
from tests.parity.subjects import opened
from tests.runtime.commands import Command, command
from tests.runtime.test_capture import live

__all__ = ["command"]
KIMI = "catalog:moonshotai--kimi-linear-48b-a3b-instruct"


def test_one_layer_of_each_kind_stands_for_all() -> None:
    session = opened(DEMO)
    for low in session.lowered.values():
        chosen = [low.graph.ops[number] for number in distinct(low)]
        assert len(chosen) < 0.8 * len(low.graph.ops)

        def kinds(ops, low=low):
            return {
                (
                    op.family,
                    compiled(op),
                    low.choices[op.id].entry,
                    tuple(low.weights[name].spec for _, name in op.weights),
                    tuple((slot, low.graph.values[value]) for slot, value in op.inputs),
                )
                for op in ops
            }

        assert kinds(chosen) == kinds(low.graph.ops)


def test_padding_leaves_what_is_live_alone() -> None:
    """In the middle of a request, every step of padding; then it goes on to the same tokens."""
    alone, beside = opened(DEMO), opened(DEMO)
    sampling = Sampling(max_new_tokens=6)
    engines = [Engine(lambda step, inputs, s=s: s.run(step, inputs)[s.logits_name], s.limits,
                      torch.device("cpu"), history=s.history) for s in (alone, beside)]  # fmt: skip
    requests = [engine.add((5, 6, 7, 8, 9), sampling) for engine in engines]
    for engine in engines:
        for _ in range(3):
            engine.step()
    before = live(beside)
    ran = set()
    for step in steps_of(beside):
        beside.warm(step, padding_inputs(beside, step))
        ran.add((step.phase, step.num_rows, step.num_sequences))
    for name, tensor in live(beside).items():
        assert torch.equal(tensor[1:], before[name][1:]), name
    for engine in engines:
        for _ in engine.serve():
            pass
    assert requests[0].tokens == requests[1].tokens
    assert {("prefill", 1, 1), ("prefill", 128, 4), ("prefill", 127, 1), ("decode", 4, 4)} <= ran
    assert max(rows for _, rows, _ in ran) == 128  # the chunk
    assert max(sequences for *_, sequences in ran) == 4  # those the caches have slots for


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (7, 3), (16, 16), (100, 12)])
def test_rows_are_dealt_out(rows: int, count: int) -> None:
    dealt = lengths(rows, count)
    assert sum(dealt) == rows
    assert len(dealt) == count
    assert max(dealt) - min(dealt) <= 1
    assert min(dealt) >= 1


def test_padding_owns_nothing() -> None:
    session = opened(DEMO)
    step = padding_step(session, [40, 3])
    assert step.slot.tolist() == [0, 0]
    assert all(not table.any() for table in step.tables.values())
    assert step.last.tolist() == [39, 42]


def test_a_cpu_has_nothing_to_prepare(command: Command) -> None:
    assert prepare(opened(DEMO)).steps == 0
    done = command("run", "demo", "--prepare", "--device", "cpu", "--format", "json")
    assert done.code == 0
    assert done.data["prepared"]["compiled"] == 0
    done = command("run", "demo", "--prepare", "--device", "cpu")
    assert "nothing is compiled beforehand" in done.out
    done = command("run", "demo", "--prepare", "--prompt", "a")
    assert done.code == 2
    assert "--prepare" in done.complaint[0]


RUN = """
import json, sys
from day0.runtime.api import load
from day0.runtime.kernel_cache import COMPILES
name, options = json.loads(sys.argv[1])
loaded = load(name, device="cuda", max_context=600, max_batch=5, **options)
prepared = loaded.prepare()
vocab = loaded.session.model.spec.vocab_size
for count, length in ((1, 1), (1, 17), (3, 100), (5, 333), (4, 64), (2, 511)):
    prompts = [[(7 * n + at) % vocab for at in range(length - (n if length > 5 else 0))]
               for n in range(count)]
    loaded.generate(prompts, max_new_tokens=8, ignore_eos=True)
print(json.dumps([prepared.compiled, prepared.loaded, COMPILES.after_ready, prepared.seconds]))
"""


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "options"),
    [("demo", {}), (KIMI, {"dummy": True, "layers": 5}),
     ("catalog:zai-org--glm-5.3-flash", {"dummy": True, "layers": 5})],
)  # fmt: skip
def test_after_ready_nothing_compiles(name: str, options: dict, tmp_path: Path) -> None:
    """In two processes with one cache: the first compiles, the second loads, neither compiles a
    thing for requests of many shapes."""
    environment = {**os.environ, "DAY0_CACHE": str(tmp_path)}
    environment.pop("TRITON_CACHE_DIR", None)
    found = []
    for _ in range(2):
        said = subprocess.run(
            [sys.executable, "-c", RUN, json.dumps([name, options])],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.append(json.loads(said.stdout.splitlines()[-1]))
        print(found[-1])
    assert found[0][0] > 0
    assert found[0][2] == 0
    assert found[1][0] == 0
    assert found[1][1] == found[0][0] + found[0][1]
    assert found[1][2] == 0


@pytest.mark.gpu
def test_graphs_are_captured_before_the_first_request() -> None:
    loaded = load("demo", device="cuda", max_context=128, max_batch=6)
    prepared = loaded.prepare()
    graphs = loaded.session.graphs
    if graphs is not None:
        assert set(graphs.captured) == {1, 2, 4, 8}
        assert prepared.graph_capture_s == pytest.approx(sum(graphs.capture_s.values()))
