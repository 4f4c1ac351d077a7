"""The scheduling plan and the passes' matches, from the Graph alone."""

import subprocess
import sys

import pytest

from day0.analysis.analyze import analyze
from day0.analysis.lowering import lowered_for, passes
from day0.analysis.schedule import Schedule, schedule
from day0.catalog.entry import entry_called, model_of
from day0.ir.graph import Model
from day0.ir.recipe import RECIPES
from day0.passes.lower import SWITCHES, Lowered
from day0.passes.warm_up import BUCKETS, decode_sizes, prefill_rows
from tests.corpus import ROOT

HOPPER = (9, 0)
KIMI = "moonshotai--kimi-linear-48b-a3b-instruct"
BF16 = RECIPES["bf16"]


@pytest.fixture(scope="module")
def kimi() -> tuple[Model, dict[str, Lowered], Schedule]:
    model = model_of(entry_called(KIMI), {})
    lowered = lowered_for(model, BF16, HOPPER)
    return model, lowered, schedule(model, BF16, lowered)


def test_blocks_hold_every_op_once_and_add_up(kimi) -> None:
    model, lowered, plan = kimi
    for phase in plan.phases:
        times = [max(len(block.layers), 1) for block in phase.blocks]
        ops = sum(block.num_ops * n for block, n in zip(phase.blocks, times, strict=True))
        assert ops == len(lowered[phase.phase].graph.ops)
        launches = sum(block.launches * n for block, n in zip(phase.blocks, times, strict=True))
        assert launches == phase.launches
        layers = [layer for block in phase.blocks for layer in block.layers]
        assert sorted(layers) == list(range(len(model.spec.layers)))
        assert phase.critical_s <= phase.scheduled_s <= phase.serial_s
        for block in phase.blocks:
            assert block.critical_s <= block.scheduled_s * (1 + 1e-9)
            assert block.scheduled_s <= block.serial_s
    decode = plan.phases[1]
    total = sum(b.scheduled_s * max(len(b.layers), 1) for b in decode.blocks)
    assert total == pytest.approx(decode.scheduled_s, rel=1e-6)


def test_the_groups_are_what_the_pass_did(kimi) -> None:
    _, lowered, plan = kimi
    decode = plan.phases[1]
    side = {op for block in decode.blocks for g in block.groups for op in g.lanes[1]}
    of_pass = set(lowered["decode"].changed["streams"])
    first = {block.layers[0] for block in decode.blocks if block.layers}
    shown = {op for op in of_pass if int(op.split(".")[1]) in first}
    assert side == shown
    (group,) = decode.blocks[2].groups
    assert [op.rpartition("ffn.")[2] for op in group.lanes[0]] == ["router", "route", "experts"]
    assert group.scheduled_s < group.serial_s


def test_decode_is_captured_unless_somebody_asks_the_host(kimi) -> None:
    _, _, plan = kimi
    prefill, decode = plan.phases
    assert decode.captured
    assert not decode.because
    assert not prefill.captured
    assert any("mla" in reason for reason in prefill.because)
    model = model_of(entry_called("deepseek-ai--deepseek-v4-flash-0731"), {})
    other = schedule(model, BF16, lowered_for(model, BF16, HOPPER)).phases[1]
    assert not other.captured
    assert any("reference" in reason for reason in other.because)


def test_the_warm_up_list_has_every_kernel_that_is_chosen(kimi) -> None:
    _, lowered, plan = kimi
    for phase, low in lowered.items():
        triton = {op for op, choice in low.choices.items() if choice.backend == "triton"}
        triton |= {op.id for op in low.graph.ops if op.family == "cache_write"}
        listed = [op for one in plan.warm_up if one.phase == phase for op in one.ops]
        assert sorted(listed) == sorted(triton)
    assert plan.communication == ()


def test_every_interval_of_a_launch_table_is_met() -> None:
    """Between neighbouring powers of two a multiple of 16 and another number, and 1."""
    for most in (1, 5, 16, 100, 8192):
        rows = prefill_rows(most)
        assert list(rows) == sorted(set(rows))
        assert rows[0] == 1
        assert rows[-1] == most
        power = 32
        while power <= most:
            inside = [n for n in rows if power // 2 < n <= power]
            assert {n % 16 == 0 for n in inside} == {True, False}, power
            power *= 2
    assert decode_sizes(1) == (1,)
    assert decode_sizes(9) == (1, 2, 4, 8, 12)
    assert decode_sizes(10_000) == BUCKETS


def test_every_pass_says_what_it_matched(kimi) -> None:
    model, lowered, _ = kimi
    found = {(row["pass"], row["phase"]): row for row in passes(lowered)}
    names = (*SWITCHES, "quantize", "choose")
    assert set(found) == {(name, phase) for name in names for phase in ("prefill", "decode")}
    for row in found.values():
        assert row["count"] == len(row["ops"])
    kda = sum(op.family == "kda" for op in model.graphs["main"].ops)
    steps = [op for op in found["fuse", "decode"]["ops"] if "mixer.kda" in op]
    assert len(steps) == kda == 20
    assert not [op for op in found["fuse", "prefill"]["ops"] if "mixer.kda" in op]
    assert found["choose", "decode"]["ops"] == []


def test_an_operator_that_nothing_runs_is_named_and_not_an_error() -> None:
    """A definition stands where there is no kernel; GLM-5.3's selection has none today."""
    analysis = analyze("demo")
    lowered = lowered_for(analysis.model, analysis.recipe, (7, 0))
    named = {row["phase"]: row["ops"] for row in passes(lowered) if row["pass"] == "choose"}
    families = {op.family for op in lowered["decode"].graph.ops if op.id in named["decode"]}
    assert {"kda_step", "experts"} <= families
    assert "cache_write" not in families


def test_all_known_models_have_a_plan_without_torch() -> None:
    """In a fresh interpreter: the analysis rooms never pay for torch."""
    code = """
import sys
from day0.catalog.entry import entry_called, model_of, names
from day0.analysis.lowering import lowered_for, passes
from day0.analysis.schedule import schedule
from day0.ir.recipe import RECIPES
from day0.passes.lower import SWITCHES
count = 0
for name in names()[::6]:
    entry = entry_called(name)
    model = model_of(entry, {})
    lowered = lowered_for(model, RECIPES["bf16"], (9, 0))
    plan = schedule(model, RECIPES["bf16"], lowered)
    assert all(p.critical_s <= p.scheduled_s * 1.000001 for p in plan.phases), entry.id
    assert all(p.scheduled_s <= p.serial_s * 1.000001 for p in plan.phases), entry.id
    assert len(passes(lowered)) == 2 * (len(SWITCHES) + 2)
    count += 1
assert not {"torch", "triton"} & set(sys.modules)
print(count)
"""
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(found.stdout) > 10
