"""What a run on a GPU would take: every choice for a Hopper GPU binds, and decoders of
everyday sizes run on nothing but kernels and libraries. Nothing is executed, so no GPU is
needed."""

from dataclasses import replace

import pytest
import torch

from day0.catalog.entry import entry_called, model_of
from day0.checkpoint.load import load
from day0.ir.cache import page_size
from day0.ir.graph import Model
from day0.ir.recipe import RECIPES
from day0.models.cut import cut
from day0.models.read import read_model
from day0.passes.lower import Lowered, Target, lower
from day0.runtime.pools import span_of
from day0.runtime.program import Program
from day0.runtime.storage import Storage
from day0_kernels.index import REFERENCES
from tests import tiny as tinies

pytest.importorskip("triton")

HOPPER = (9, 0)
# The runtime's own addressing: a kernel or one call of torch on a GPU, whatever its label.
OURS = ("cache_write", "take_rows")


# Whose attention is plain, windowed, capped or has sinks.
DECODERS = (
    "meta-llama--llama-3.1-8b-instruct",
    "qwen--qwen2-0.5b",
    "qwen--qwen3-8b",
    "qwen--qwen3-30b-a3b",
    "mistralai--mistral-nemo-instruct-2407",
    "mistralai--mixtral-8x22b-v0.1",
    "openai--gpt-oss-20b",
    "qwen--qwen3-next-80b-a3b-instruct",
)
LAYERS = 8


def for_hopper(model: Model, recipe: str) -> dict[str, Lowered]:
    target = Target(
        backend="auto", recipe=RECIPES[recipe], references=REFERENCES, capability=HOPPER
    )
    return lower(model, target)


def program_of(lowered: Lowered, dtype: torch.dtype) -> Program:
    """Bound to caches of a page each, and to empty weights."""
    caches = lowered.caches
    storage = Storage(
        caches, page_size=page_size(caches.values()), num_slots=1, device=torch.device("cpu"),
        num_pages={span_of(cache): 1 for cache in caches.values()},
        dtypes=dict.fromkeys(caches, dtype),
    )  # fmt: skip
    weights = dict.fromkeys(lowered.weights, torch.empty(0))
    return Program(
        lowered, weights=weights, storage=storage, dtype=dtype, device=torch.device("cpu")
    )


@pytest.mark.hf
@pytest.mark.parametrize("kind", tinies.TYPES)
@pytest.mark.parametrize("recipe", ["bf16", "fp32"])
def test_every_choice_binds(kind: str, recipe: str, tiny) -> None:
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[recipe]
    model = read_model(load(str(tiny(kind).folder)), None).model
    for phase, lowered in for_hopper(model, recipe).items():
        program = program_of(lowered, dtype)
        chosen = {op_id: choice.entry for op_id, choice in lowered.choices.items()}
        bound = {call.op.id: call.entry for call in program.calls if call.op.family not in OURS}
        assert bound, phase
        assert bound == {op_id: chosen[op_id] for op_id in bound}


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_run_on_kernels(name: str) -> None:
    entry = entry_called(name)
    model = model_of(replace(entry, spec=cut(entry.spec, LAYERS)), {})
    for phase, lowered in for_hopper(model, "bf16").items():
        left = {
            (choice.family, choice.why_not)
            for choice in lowered.choices.values()
            if choice.backend == "reference" and choice.family not in OURS
        }
        assert left == set(), phase
        assert any(choice.family == "gqa" for choice in lowered.choices.values())


def test_prompts_and_decode_of_gpt_oss() -> None:
    """Who takes what: sinks leave torch's attention out, windows and full layers alike."""
    entry = entry_called("openai--gpt-oss-20b")
    model = model_of(replace(entry, spec=cut(entry.spec, LAYERS)), {})
    windows = set()
    for lowered in for_hopper(model, "bf16").values():
        for op in lowered.graph.ops:
            if op.family == "gqa":
                windows.add(dict(op.attrs)["window"])
                chosen = lowered.choices[op.id].entry
                assert chosen == "day0_kernels.gqa.attention:gqa_paged"
    assert windows == {0, 128}
