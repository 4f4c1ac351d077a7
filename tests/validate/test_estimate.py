"""Floors and predictions against figures worked out by hand, memory against what is held."""

from dataclasses import replace

import pytest

from day0.analysis.efficiencies import efficiencies, step_s
from day0.analysis.lowering import lowered_for
from day0.analysis.machine import Assumed, gpus
from day0.ir.recipe import RECIPES
from day0.passes.lower import OPTIONAL
from day0.registry.family import Context
from day0.runtime.opening import open_model
from day0.runtime.session import Sizes
from day0.validate import estimate as estimates
from day0.validate.grid import Point

DEVICE = replace(gpus()["h200"], bandwidth=1e9, rates={"bf16": 1e12, "fp8": 2e12})


@pytest.fixture(autouse=True)
def shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "ASSUMED", Assumed(bandwidth=0.5, matrix=0.25))


def test_a_decode_step_is_bound_by_its_bytes() -> None:
    """The demo at batch 1: README's 'active' weights and caches; every step reads them once."""
    opened = open_model("demo", quant="bf16", backend="reference")
    one = estimates.estimate(
        opened.model, RECIPES["bf16"], Point(batch=1, input=64, output=2), DEVICE
    )
    ops = opened.model.graphs["main"].ops
    assert one.tpot_ms == pytest.approx(2 * one.tpot_floor_ms)
    rows = estimates.by_family(
        opened.model, RECIPES["bf16"], Point(batch=1, input=64, output=2), DEVICE
    )
    assert sum(float(row["bytes"]) for row in rows) / 1e9 * 1e3 == pytest.approx(
        one.tpot_floor_ms, rel=1e-3
    )
    assert sum(float(row["share"]) for row in rows) == pytest.approx(1)
    assert {row["family"] for row in rows} <= {op.family for op in ops}
    # linear weights alone: 3.33 M parameters (analyze demo) of two bytes, all but the head's MTP
    linear = next(float(row["bytes"]) for row in rows if row["family"] == "linear")
    assert linear == pytest.approx(2 * 3.33e6, rel=0.02)


def test_more_sequences_share_the_weights() -> None:
    opened = open_model("catalog:qwen--qwen3-0.6b", quant="bf16", dummy=True, layers=2)
    times = [
        estimates.estimate(
            opened.model, RECIPES["bf16"], Point(batch=batch, input=16, output=2), DEVICE
        ).tpot_floor_ms
        for batch in (1, 4)
    ]
    assert times[0] < times[1] < 1.2 * times[0]


def test_the_median_request_waits_for_half_of_the_prompts() -> None:
    """32 prompts of 1,024 tokens in steps of 8,192 rows: first tokens after 1, 2, 3 and 4."""
    assert estimates.steps_to_first(Point(batch=32, input=1024, output=2), 8192) == (4, 2.5)
    assert estimates.steps_to_first(Point(batch=1, input=16384, output=2), 8192) == (2, 2)
    assert estimates.steps_to_first(Point(batch=3, input=8192, output=2), 8192) == (3, 2)


def test_a_prediction_says_what_it_stands_on() -> None:
    """Measured where benches ran on this GPU and the lowered graphs are there; else assumed."""
    name, point = "catalog:qwen--qwen3-0.6b", Point(batch=4, input=4096, output=2)
    opened = open_model(name, quant="bf16", dummy=True, layers=2)
    recipe, lowered = RECIPES["bf16"], lowered_for(opened.model, RECIPES["bf16"], (9, 0))
    h200, a100 = gpus()["h200"], gpus()["a100"]
    known = efficiencies()
    found = estimates.estimate(opened.model, recipe, point, h200, lowered=lowered)
    assert found.basis == known.source
    decode = Context(phase="decode", length=4097, rows=4)
    assert found.tpot_ms == pytest.approx(step_s(lowered["decode"], recipe, decode, known) * 1e3)
    prefill = Context(phase="prefill", length=4096, rows=8192)
    step = step_s(lowered["prefill"], recipe, prefill, known) * 1e3
    assert found.ttft_ms == pytest.approx(1.5 * step)
    for gpu, graphs in ((a100, lowered), (h200, None)):
        other = estimates.estimate(opened.model, recipe, point, gpu, lowered=graphs)
        assert other.basis == "assumed: 50% of the bandwidth, 25% of the matrix rate"
        assert other.tpot_ms == pytest.approx(2 * other.tpot_floor_ms)


def test_a_prefill_is_bound_by_its_products_when_it_is_long() -> None:
    opened = open_model("catalog:qwen--qwen3-0.6b", quant="bf16", dummy=True, layers=2)
    found = [
        estimates.estimate(
            opened.model, RECIPES["bf16"], Point(batch=1, input=length, output=2), DEVICE
        )
        for length in (2048, 4096)
    ]
    assert found[1].ttft_floor_ms > 1.9 * found[0].ttft_floor_ms
    assert found[1].ttft_ms == pytest.approx(4 * found[1].ttft_floor_ms)


def test_memory_is_what_the_session_holds() -> None:
    opened = open_model("demo", quant="bf16", backend="reference", without=tuple(OPTIONAL))
    session, _ = opened.session(Sizes(tokens=300, sequences=3, chunk=64))
    planned = estimates.memory(session, opened.recipe, rows=64)
    names = {
        name for low in session.lowered.values() for op in low.graph.ops for _, name in op.weights
    }
    held = sum(weight.nbytes for name in names if (weight := session.weight(name)) is not None)
    assert planned["weights"] == held
    caches = sum(p.nbytes for parts in session.storage.parts.values() for p in parts.values())
    assert planned["caches"] == caches
    fullest = 0

    def watch(call, frame) -> None:
        nonlocal fullest
        values = {name: v for name, v in frame.values.items() if name != "ids"}
        fullest = max(fullest, sum(value.numel() * 2 for value in values.values()))

    from day0.validate.direct import Direct
    from day0.validate.sequences import Known

    known = {0: Known(ids=tuple(range(64)), prompt=64)}
    direct = Direct(session, known, look=lambda call, frame, owners: watch(call, frame))
    direct.prefill(0)
    assert planned["values"] == pytest.approx(fullest, rel=0.02)


def test_a_device_that_nobody_knows_has_no_floor() -> None:
    assert estimates.device_called("cpu") is None
    assert estimates.device_called("NVIDIA H200") == gpus()["h200"]
    assert estimates.device_called("NVIDIA A100-SXM4-80GB") == gpus()["a100"]
