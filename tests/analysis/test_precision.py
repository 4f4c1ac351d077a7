"""The plan `precision`: the pass's own decisions, put together without loss, and their bytes."""

from pathlib import Path

import pytest

from day0.analysis.analyze import analyze
from day0.analysis.caches import held as held_of
from day0.analysis.machine import machine
from day0.analysis.memory import memory, stored_weights, weight_bytes
from day0.analysis.precision import Line, PrecisionPlan, precision
from day0.ir.recipe import RECIPES
from day0.passes.quantize import quantize
from tests.field_cases.asking import analysis, corpus_config, small

MODELS = ("demo", "catalog:zai-org--glm-5.2", "catalog:moonshotai--kimi-k3",
          "catalog:qwen--qwen3-next-80b-a3b-instruct")  # fmt: skip


def plan_of(name: str, quant: str = "fp8") -> PrecisionPlan:
    found = analyze(name, quant=quant)
    return precision(found.model, found.recipe, machine(), context=found.spec.context_length)


def lines(plan: PrecisionPlan, kind: str, what: str) -> list[Line]:
    return [line for line in plan.lines if (line.kind, line.what) == (kind, what)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("quant", ["fp32", "bf16", "fp8"])
def test_it_is_what_the_pass_said(name: str, quant: str) -> None:
    """Every decision is in one line, and the bytes are those of weights and caches."""
    found = analyze(name, quant=quant)
    said = quantize(found.model.graphs["main"], found.model, found.recipe)
    plan = plan_of(name, quant)
    assert sum(line.count for line in plan.lines) == len(said.rows)
    assert {(line.kind, line.runs, line.action, line.why) for line in plan.lines} == {
        (row.kind, row.runs, row.action, row.why) for row in said.rows
    }
    assert plan.decided == plan.needed == len(said.weights) + len(said.caches)
    assert plan.weights_after == weight_bytes(found.model, found.recipe)
    assert plan.weights_before == pytest.approx(stored_weights(found.model), abs=len(plan.lines))
    assert plan.caches_after == held_of(found.model, found.recipe, plan.tokens)
    after = [line.after for line in plan.lines if line.kind == "cache"]
    assert sum(after) == plan.caches_after
    before = [line.before for line in plan.lines if line.kind == "cache"]
    assert sum(before) == plan.caches_before


def test_glm_5_2_in_fp8() -> None:
    """Experts by hand: 75 layers of 256 x 3 x 2048 x 6144 in FP8 with a scale of 4 bytes a block;
    latents of 512 with a scale of 4 bytes per 128, the rotated 64 in bf16; index keys of 128 in
    MXFP8 with a byte per 32."""
    plan = plan_of("catalog:zai-org--glm-5.2")
    (experts,) = lines(plan, "weight", "experts")
    elements = 75 * 256 * 3 * 2048 * 6144
    assert (experts.count, experts.before) == (225, 2 * elements)
    assert experts.after == elements + elements // 128**2 * 4
    assert (experts.compute, experts.scaling) == ("fp8", "static")
    assert (experts.action, experts.granularity) == ("quantise", "a block of 128 x 128")
    (latent,) = lines(plan, "cache", "latent.latent")
    assert latent.after == 131_072 * 78 * (512 + 4 * 4)
    assert (latent.scaling, latent.compute) == ("dynamic", "bf16 (widened)")
    (rope,) = lines(plan, "cache", "latent.k_rope")
    assert (rope.runs, rope.before) == ("bf16", rope.after)
    (keys,) = lines(plan, "cache", "indexer.keys.entry")
    assert keys.after == 131_072 * 21 * (128 + 4)
    assert "top-k" in keys.risk
    (query,) = lines(plan, "activation", "indexer.q")
    assert (query.runs, query.scaling) == ("mxfp8", "dynamic")
    assert plan.longest_before == {1: 0, 32: 0}  # 1.49 TB do not fit in eight H200
    assert plan.longest_after[1] == 1_048_576
    assert plan.longest_after[32] > 100_000


def test_what_stays_high_and_why() -> None:
    plan = plan_of("catalog:moonshotai--kimi-k3")
    for what, words in (("router", "experts"), ("state", "A_log"), ("norm", "channel")):
        found = lines(plan, "weight", what)
        assert found
        assert all(line.scaling == "none" for line in found)
        assert all(words in line.risk for line in found)
    (state,) = lines(plan, "cache", "state.state")
    assert (state.runs, state.action, state.count) == ("fp32", "keep", 69)
    assert "add up over the whole sequence" in state.risk


def test_a_checkpoint_that_is_quantised_already(corpus: Path) -> None:
    """Kimi-K3's experts are MXFP4: bf16 dequantises them, fp8 rounds them a second time."""
    found = analysis(corpus_config(corpus, "moonshotai__Kimi-K3"))
    told = {}
    for name in ("bf16", "fp8"):
        plan = precision(found.model, RECIPES[name], machine(), context=1_048_576)
        (told[name],) = lines(plan, "weight", "experts")
        assert 1.55e12 < plan.weights_before < 1.57e12
    assert (told["bf16"].stored, told["bf16"].action) == ("mxfp4", "dequantise")
    assert told["bf16"].after > 3.7 * told["bf16"].before
    assert told["fp8"].action == "requantise"
    assert told["fp8"].risk.startswith("rounded a second time")


def test_longest_agrees_with_the_memory_plan() -> None:
    found = analyze("catalog:meta-llama--meta-llama-3.1-70b", quant="fp8")
    for count in (1, 2):
        plan = precision(found.model, found.recipe, machine("h200", count), context=131_072)
        fits = memory(found.model, found.recipe, machine("h200", count), context=131_072)
        for batch, tokens in plan.longest_after.items():
            assert tokens == fits.ways[0].longest[batch]
        assert plan.longest_after[32] > plan.longest_before[32]


def test_tied_heads_are_weighed_once() -> None:
    found = analysis(small())
    plan = precision(found.model, found.recipe, machine(), context=None)
    elements = 30 * 24 + 2 * (24 * 96 + 3 * 24 * 40 + 2 * 24) + 24
    assert (plan.weights_before, plan.weights_after) == (2 * elements, 2 * elements)
