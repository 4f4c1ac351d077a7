"""What a run on a GPU would take: every choice for a Hopper GPU binds. Nothing is executed, so
no GPU is needed."""

import pytest
import torch

from day0.checkpoint.load import load
from day0.ir.recipe import RECIPES
from day0.models.read import read_model
from day0.passes.lower import Lowered, Target, lower
from day0.runtime.pools import page_size, span_of
from day0.runtime.program import Program
from day0.runtime.storage import Storage
from day0_kernels.index import REFERENCES
from tests import tiny as tinies

pytest.importorskip("triton")
pytestmark = pytest.mark.hf

HOPPER = (9, 0)
# The runtime's own addressing: a kernel or one call of torch on a GPU, whatever its label.
OURS = ("cache_write", "take_rows")


def lowered_for_hopper(kind: str, tiny, recipe: str) -> dict[str, Lowered]:
    model = read_model(load(str(tiny(kind).folder)), None).model
    target = Target(
        backend="auto", recipe=RECIPES[recipe], references=REFERENCES, capability=HOPPER
    )
    return lower(model, target)


def program_of(lowered: Lowered, dtype: torch.dtype) -> Program:
    """Bound to caches of a page each; weights are looked up when they are read."""
    caches = lowered.caches
    storage = Storage(
        caches, page_size=page_size(caches.values()), num_slots=1, device=torch.device("cpu"),
        num_pages={span_of(cache): 1 for cache in caches.values()},
        dtypes=dict.fromkeys(caches, dtype),
    )  # fmt: skip
    return Program(lowered, weights={}, storage=storage, dtype=dtype, device=torch.device("cpu"))


@pytest.mark.parametrize("kind", tinies.TYPES)
@pytest.mark.parametrize("recipe", ["bf16", "fp32"])
def test_every_choice_binds(kind: str, recipe: str, tiny) -> None:
    dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[recipe]
    for phase, lowered in lowered_for_hopper(kind, tiny, recipe).items():
        program = program_of(lowered, dtype)
        chosen = {op_id: choice.entry for op_id, choice in lowered.choices.items()}
        bound = {call.op.id: call.entry for call in program.calls if call.op.family not in OURS}
        assert bound, phase
        assert bound == {op_id: chosen[op_id] for op_id in bound}
