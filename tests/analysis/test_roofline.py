"""The plan `cost`: seconds by hand, what bounds, and sums that agree with the cost per token."""

import pytest

from day0.analysis.analyze import CONTEXTS, Analysis, analyze
from day0.analysis.cost import totals
from day0.analysis.machine import machine
from day0.analysis.roofline import BATCH, CostPlan, Line, Step, roofline
from day0.registry.family import Context

LLAMA = "catalog:meta-llama--meta-llama-3.1-8b"
H200 = machine("h200", 1)


def of(name: str, *, gpu: str = "h200", quant: str = "bf16") -> tuple[Analysis, CostPlan]:
    found = analyze(name, quant=quant)
    return found, roofline(found.model, found.entries, machine(gpu, 1))


def line(step: Step, family: str) -> Line:
    return next(one for one in step.lines if one.family == family)


def test_seconds_of_llama_by_hand() -> None:
    """32 layers of 4096: the linears without the embedding, read once at 4.8 TB/s in decode and
    multiplied at 989 TFLOPS in prefill; the head works on the last row alone."""
    _, plan = of(LLAMA)
    prefill, decode, batch = plan.steps
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    head = 128_256 * 4096
    linear = line(decode, "linear")
    assert linear.weight_bytes == 2 * (32 * layer + head)
    assert linear.bound == "weights"
    assert linear.seconds == pytest.approx((linear.weight_bytes + linear.value_bytes) / 4.8e12)
    assert 0.9 < linear.share < 1
    flops = line(prefill, "linear").flops
    assert flops == 2 * (4096 * 32 * layer + head)
    # The head reads its matrix longer than it multiplies one row.
    matrices = 2 * 4096 * 32 * layer / 989e12
    assert line(prefill, "linear").seconds == pytest.approx(matrices + 2 * head / 4.8e12, rel=1e-4)
    assert line(prefill, "linear").bound == "matrix"
    assert line(decode, "gqa").cache_bytes == pytest.approx(32 * 8192 * 2 * 8 * 128 * 2)
    assert line(batch, "gqa").cache_bytes == BATCH * line(decode, "gqa").cache_bytes
    assert line(batch, "gqa").bound == "caches"
    assert line(batch, "linear").weight_bytes == linear.weight_bytes


def test_a_prompt_reads_its_own_cache_once() -> None:
    _, plan = of(LLAMA)
    assert line(plan.steps[0], "gqa").cache_bytes == 32 * 4096 * 2 * 8 * 128 * 2


@pytest.mark.parametrize("name", [LLAMA, "catalog:moonshotai--kimi-k3", "demo"])
def test_decode_sums_up_to_the_cost_per_token(name: str) -> None:
    found, plan = of(name)
    load = plan.machine.assumed
    context = Context(length=load.context)
    expected = totals(found.model, found.recipe, {"decode": context})["decode"]
    step = plan.steps[1]
    assert sum(one.flops for one in step.lines) == pytest.approx(expected.flops)
    assert sum(one.weight_bytes for one in step.lines) == pytest.approx(expected.weight_bytes)
    assert sum(one.cache_bytes for one in step.lines) == pytest.approx(expected.cache_bytes)
    assert sum(one.share for one in step.lines) == pytest.approx(1)
    assert sum(one.count for one in step.lines) == len(found.model.graphs["main"].ops)
    assert CONTEXTS["decode_4k"].length != load.context  # the load is the plan's own


def test_more_sequences_reach_more_experts_but_not_all() -> None:
    """64 rows of 16 in 896: 896 (1 - (1 - 16/896)^64) of them."""
    _, plan = of("catalog:moonshotai--kimi-k3")
    one, many = (line(step, "experts").weight_bytes for step in plan.steps[1:])
    assert many / one == pytest.approx((1 - (1 - 16 / 896) ** 64) / (16 / 896))


def test_fp8_weights_halve_what_is_read_and_double_the_rate() -> None:
    (_, wide), (_, narrow) = of(LLAMA), of(LLAMA, quant="fp8")
    ratio = (
        line(narrow.steps[1], "linear").weight_bytes / line(wide.steps[1], "linear").weight_bytes
    )
    assert 0.5 < ratio < 0.7  # attention projections and the head stay bf16
    assert line(narrow.steps[0], "linear").seconds < line(wide.steps[0], "linear").seconds


def test_another_gpu_has_other_seconds() -> None:
    (_, h200), (_, h20) = of(LLAMA), of(LLAMA, gpu="h20")
    assert h20.steps[1].seconds / h200.steps[1].seconds == pytest.approx(4.8 / 4.0, rel=1e-3)
    assert h20.steps[0].seconds > 5 * h200.steps[0].seconds
    eight = roofline(analyze(LLAMA).model, analyze(LLAMA).entries, machine("h200", 8))
    assert eight.steps[1].floor == pytest.approx(h200.steps[1].seconds / 8)
