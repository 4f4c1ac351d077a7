"""Launches by kind of layer against a count by hand, and the floor against measured tables."""

import pytest
import torch

from day0.checkpoint.load import DEMO
from day0.passes.floor import floor_s
from day0.registry.family import Context
from day0.runtime.api import load
from day0.runtime.opening import Opened, open_model
from day0.runtime.prepare import padding_inputs, padding_step
from day0.runtime.step_costs import definitions, launches_by_kind, per_layer, planned
from tests.runtime.commands import Command, command

__all__ = ["command"]
KIMI = "catalog:moonshotai--kimi-linear-48b-a3b-instruct"

# By hand, from the kernels' sources. Counted where a kernel starts, in decode.
KDA = 1 + 1 + 1 + 1 + 1  # q k v and gates in one product; f_b; g_b; the step; o_proj
MOE = 1 + 1 + 4 + 3 + 1  # router; route; sort, gate-up, down, sum; shared gate-up, act, down; add
GLU = 3  # gate-up, act, down
MLA = 1 + 1 + 2 + 4 + 1  # q and kv_a; norm; two parts written; in, attend, merge, out; o_proj
NORM = 1  # with the residual's addition before it
MIX = 2  # of the blocks before a sublayer, and its norm
SELECT = 2 + 1 + 3  # norm of index keys in two; pooling (a definition); scores, candidates, choice


@pytest.fixture(scope="module")
def kimi() -> Opened:
    return open_model(KIMI, dummy=True, device="cpu")


def test_kimi_linear_by_hand(kimi: Opened) -> None:
    low, of = planned(kimi)
    found = launches_by_kind(low, kimi.model.spec, kimi.recipe)
    assert of == "h200"
    assert definitions(low) == 0
    said = {(one.kind, one.launches): one.layers for one in found}
    latent = (3, 7, 11, 15, 19, 23, 26)
    recurrent = tuple(n for n in range(1, 27) if n not in latent)
    assert said == {
        ("kda + glu", NORM + KDA + NORM + GLU + NORM): (0,),  # the first norm adds nothing
        ("kda + moe", KDA + NORM + MOE + NORM): recurrent,
        ("mla + moe", MLA + NORM + MOE + NORM): latent,
    }
    assert per_layer(found) == pytest.approx((11 + 19 * 17 + 7 * 21) / 27)


def test_the_demo_by_hand() -> None:
    opened = open_model(str(DEMO), device="cpu")
    low, _ = planned(opened)
    said = {(one.kind, one.launches): one.layers
            for one in launches_by_kind(low, opened.model.spec, opened.recipe)}  # fmt: skip
    add = 1
    mla = MLA + 2 + 1  # q in two steps with a norm between; the output gate
    assert said == {
        ("kda + glu", NORM + KDA + add + MIX + GLU + add): (0,),
        ("kda + moe", MIX + KDA + add + MIX + MOE + add): (1, 2),
        # two blocks are stored: a sum, its mix and the norm behind are one, told with the sum
        ("kda + moe", KDA + 1 + MOE + 1): (5, 6),
        ("kda + moe", MIX + KDA + MIX + MOE + add): (4,),  # a block begins: nothing to add to
        ("sparse_mla + moe", MIX + mla + SELECT + add + MIX + MOE + add): (3,),
        ("sparse_mla + moe", mla + SELECT + 1 + MOE + 1): (7,),
    }
    assert definitions(low) == 2


@pytest.mark.parametrize(
    ("quant", "rows", "milliseconds"),
    [("bf16", 1, 1.48), ("bf16", 8, 5.9), ("bf16", 32, 15.6), ("bf16", 128, 25.4),
     ("fp8", 1, 1.08), ("fp8", 32, 8.5)],
)  # fmt: skip
def test_the_floor_is_that_of_the_measured_peers(
    quant: str, rows: int, milliseconds: float
) -> None:
    """Kimi-Linear at a context of 1,024: shared/reference/h200_peers.md, last section."""
    opened = open_model(KIMI, dummy=True, device="cpu", quant=quant)
    low, _ = planned(opened)
    found = floor_s(low, opened.recipe, Context(length=1024, rows=rows)) * 1e3
    assert found == pytest.approx(milliseconds, rel=0.015)


def test_run_tells_them(command: Command) -> None:
    done = command("run", "demo", "--device", "cpu", "--max-new-tokens", "5", "--format", "json")
    metrics, launches = done.data["metrics"], done.data["launches"]
    kinds = launches["by_layer_kind"]
    assert sum(len(kind["layers"]) for kind in kinds) == 8
    total = sum(kind["launches"] * len(kind["layers"]) for kind in kinds)
    assert metrics["launches_per_layer"] == pytest.approx(total / 8)
    assert total < launches["step"] < total + 8
    assert 0 < metrics["decode_floor_ms"] < 0.1
    assert metrics["decode_floor_share"] is None  # a CPU's time says nothing of an H200
    done = command("run", "demo", "--device", "cpu", "--max-new-tokens", "1", "--format", "json")
    assert done.data["metrics"]["decode_floor_ms"] is None  # no decode step


@pytest.mark.gpu
@pytest.mark.parametrize("name", [KIMI, "demo"])
def test_a_captured_step_starts_as_many_kernels_as_declared(name: str) -> None:
    options = {} if name == "demo" else {"dummy": True, "layers": 8}
    loaded = load(name, device="cuda", max_context=1024, max_batch=2, **options)
    session = loaded.session
    low, _ = planned(loaded.opened)
    declared = sum(low.launches(loaded.opened.recipe).values())
    if session.graphs is None or definitions(low):
        pytest.skip("the step is not captured, or definitions start kernels of no fixed number")
    captured = session.graphs.capture(1, padding_inputs(session, padding_step(session, [1])))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        captured.graph.replay()
        torch.cuda.synchronize()
    rows = profile.key_averages()
    counted = sum(
        row.count
        for row in rows
        if row.self_device_time_total > 0 and not row.key.lower().startswith(("memcpy", "memset"))
    )
    print(declared, counted, [(row.key[:60], row.count) for row in rows])
    assert counted == pytest.approx(declared, rel=0.1)
