"""The parallel plan: the mission's numbers, sizes worked out by hand, and what is recommended."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from day0.analysis.analyze import Analysis
from day0.analysis.cost import stored_bytes
from day0.analysis.kinds import kinds_of
from day0.analysis.machine import Assumed, Machine, gpus, machine
from day0.analysis.parallel.mesh import Law, Mesh, legal_degrees, meshes
from day0.analysis.parallel.plan import ParallelPlan, plan
from day0.analysis.parallel.share import Shares, Step
from day0.analysis.parallel.stages import Stages
from day0.errors import Day0Error
from day0.report.parallel_json import parallel
from tests.analysis.test_speed import slowed
from tests.field_cases.asking import analysis, corpus_config, small

KIMI_K3 = "moonshotai__Kimi-K3"
QWEN25 = "Qwen__Qwen2.5-7B-Instruct"
QWEN06 = "Qwen__Qwen3-0.6B"


def on(got: Analysis, planned: Machine) -> ParallelPlan:
    return plan(got.model, got.recipe, got.entries, planned, got.bytes.checkpoint)


def shares(got: Analysis) -> tuple[Shares, Stages]:
    found = Shares(kinds_of(got.model, got.recipe, got.entries), got.recipe, machine("h200", 8))
    return found, Stages(found.found, ())


def run_bytes(got: Analysis) -> int:
    """Of the weights that the main graph reads, in the recipe's formats, each once."""
    names = {name for op in got.model.graphs["main"].ops for _, name in op.weights}
    weights = [got.model.weights[name] for name in names]
    return sum(stored_bytes(got.recipe.weight(one), one.spec.dims) for one in weights)


def test_kimi_k3_in_fp8_over_16(corpus: Path) -> None:
    """FP8 blocks are illegal there, and both quotients are named (issue 7)."""
    found = on(analysis(corpus_config(corpus, KIMI_K3), quant="fp8"), machine("h200", 16))
    reasons = next(group.reasons for group in found.illegal if "tp16" in group.meshes)
    assert any("33792/16 = 2112 is no multiple of 128" in reason for reason in reasons)
    assert any("3072/16 = 192 is no multiple of 128" in reason for reason in reasons)
    assert found.choice("tp16") is None
    assert found.choice("tp8") is not None


def test_kimi_k3_fits_neither_one_h200_nor_eight(corpus: Path) -> None:
    got = analysis(corpus_config(corpus, KIMI_K3), quant="fp8")
    found = plan(got.model, got.recipe, got.entries, machine("h200", 8), 1_560_860_324_864)
    assert (found.one_holds, found.all_hold, found.fits) == (False, False, False)
    assert (found.latency, found.throughput) == ("", "")
    assert found.needed == 32
    again = on(got, machine("h200", found.needed))
    assert again.fits
    assert not on(got, machine("h200", found.needed // 2)).fits


def test_kimi_k3_per_rank_at_tp8(corpus: Path) -> None:
    """Recurrent state of a sequence (field case 71), and the blocks that residuals attend to."""
    got = analysis(corpus_config(corpus, KIMI_K3))
    found, stages = shares(got)
    (whole,) = stages.of(1)
    state = {}
    for held, count in zip(found.found.held, whole.held, strict=True):
        if held.spec.role == "state":
            state = {tp: count * found.entry(held, tp) for tp in (1, 8)}
    assert state == {1: 434_110_464, 8: 54_263_808}
    chosen = on(got, machine("h200", 8)).choice("tp8")
    assert chosen is not None
    # eight blocks of 7168 channels, for every row of a chunk
    assert chosen.memory.bank == 8 * 7168 * 2 * 8192


def test_qwen25_7b_has_three_legal_degrees(corpus: Path) -> None:
    for quant in ("bf16", "fp8"):
        got = analysis(corpus_config(corpus, QWEN25), quant=quant)
        assert legal_degrees(Law(kinds_of(got.model, got.recipe, got.entries))) == (1, 2, 4)


@pytest.mark.parametrize("quant", ["bf16", "fp8"])
@pytest.mark.parametrize("name", [QWEN25, QWEN06, KIMI_K3, "zai-org__GLM-5.3-Flash"])
def test_one_rank_holds_everything_once(name: str, quant: str, corpus: Path) -> None:
    got = analysis(corpus_config(corpus, name), quant=quant)
    found, stages = shares(got)
    (whole,) = stages.of(1)
    assert found.weights(Mesh(), whole) == run_bytes(got)


def test_a_tied_table_is_held_by_the_first_stage_and_the_last(corpus: Path) -> None:
    got = analysis(corpus_config(corpus, QWEN06))
    found, stages = shares(got)
    table = got.spec.vocab_size * got.spec.shape.hidden_size * 2
    for pp in (2, 4, 7):
        split = [
            (found.weights(Mesh(pp=pp), stage), stage.alike) for stage in stages.of(pp)
        ]  # fmt: skip
        assert sum(alike for _, alike in split) == pp
        assert sum(size * alike for size, alike in split) == run_bytes(got) + table


def test_whole_experts_and_cut_ones_are_the_same_bytes(corpus: Path) -> None:
    got = analysis(corpus_config(corpus, "Qwen__Qwen3-30B-A3B"))
    found, stages = shares(got)
    (whole,) = stages.of(1)
    sizes = {
        (tp, ep): found.weights(Mesh(tp=tp, ep=ep), whole) for tp, ep in ((4, 1), (4, 2), (4, 4))
    }
    assert len(set(sizes.values())) == 1
    routed = 48 * 128 * 3 * 2048 * 768 * 2
    less = found.weights(Mesh(cp=4), whole) - found.weights(Mesh(cp=4, ep=4), whole)
    assert less == routed * 3 // 4


def plain(**words: Any) -> Analysis:
    """Sizes that come out even, nothing tied."""
    sizes = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8,
             "num_key_value_heads": 4, "head_dim": 32, "intermediate_size": 512,
             "vocab_size": 1024, "tie_word_embeddings": False}  # fmt: skip
    return analysis(small(**{**sizes, **words}))


def test_memory_by_hand() -> None:
    chosen = on(plain(), machine("h200", 4)).choice("pp2tp2")
    assert chosen is not None
    layer = 2 * (256 * 256 * 2 + 256 * 128 * 2 + 3 * 256 * 512) // 2 + 2 * 2 * 256
    edge = 2 * 1024 * 256 // 2 + 2 * 256  # the head's half and the last norm
    assert chosen.memory.weights == 2 * layer + edge
    assert chosen.memory.caches == 2 * 8192 * 2 * 2 * 32 * 2  # two layers, k and v, two heads
    assert chosen.memory.bank == 0
    assert chosen.sequences == (machine("h200", 4).usable - chosen.memory.fixed) // (
        chosen.memory.caches
    )


def test_bytes_sent_by_hand() -> None:
    """All-reduces send 2 (n-1)/n of a row, and the logits' all-gather (n-1)/n."""
    found = on(plain(), machine("h200", 4))
    tp4, cp2, pp2 = found.choice("tp4"), found.choice("cp2"), found.choice("pp2")
    assert tp4 is not None
    assert cp2 is not None
    assert pp2 is not None
    row, logits = 256 * 2, 1024 * 2
    assert tp4.decode.tp == 9 * 2 * 3 / 4 * row + 3 / 4 * logits
    assert tp4.prefill.tp == 9 * 2 * 3 / 4 * row * 4096 + 3 / 4 * logits
    assert tp4.decode.per_layer == tp4.decode.tp / 4
    # the other rank's keys and values of each layer; in decode partial results in fp32
    assert cp2.prefill.cp == 4 * 4096 / 2 * 2 * 4 * 32 * 2
    assert cp2.decode.cp == 4 * 2 * 1 / 2 * 256 * 4
    assert (cp2.prefill.tp, tp4.prefill.cp, pp2.prefill.tp) == (0, 0, 0)
    assert pp2.prefill.pp == 4096 * row
    assert pp2.decode.pp == row


def test_times_of_a_large_product_by_hand() -> None:
    """A prompt is bound by products, a token by the bytes of the weights."""
    words = {"hidden_size": 8192, "num_hidden_layers": 1, "num_attention_heads": 64,
             "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 28672,
             "vocab_size": 30, "tie_word_embeddings": False}  # fmt: skip
    got = analysis(small(**words))
    found = Shares(kinds_of(got.model, got.recipe, got.entries), got.recipe, machine("h200", 2))
    number = next(i for i, kind in enumerate(found.found.kinds) if kind.op.id.endswith("down_proj"))
    elements = 8192 * 28672
    prompt = Step(phase="prefill", rows=4096, length=4096)
    token = Step(phase="decode", rows=1, length=4096)
    for tp in (1, 2):
        assert found.seconds(number, Mesh(tp=tp), prompt) == pytest.approx(
            2 * elements / tp * 4096 / (989e12 * 0.5)
        )
        assert found.seconds(number, Mesh(tp=tp), token) == pytest.approx(
            2 * elements / tp / (4.8e12 * 0.7)
        )
    assert found.seconds(number, Mesh(cp=2), prompt) == pytest.approx(
        2 * elements * 2048 / (989e12 * 0.5)
    )


def test_the_recommended_are_the_best_of_their_kind(corpus: Path) -> None:
    got = analysis(corpus_config(corpus, "Qwen__Qwen3-235B-A22B"), quant="fp8")
    found = on(got, machine("h200", 8))
    fitting = [choice for choice in found.choices if choice.times]
    best, most = found.choice(found.latency), found.choice(found.throughput)
    assert best is not None
    assert most is not None
    assert best.times is not None
    assert most.times is not None
    output = found.assumed.output
    alone = [one.times.ttft + output * one.times.tpot for one in fitting if one.times]
    assert best.times.ttft + output * best.times.tpot == min(alone)
    rates = [one.times.tokens_per_second for one in fitting if one.times]
    assert most.times.tokens_per_second == max(rates)
    assert all(one.memory.total <= found.machine.usable for one in fitting)
    assert any(not one.fits for one in found.choices)


def test_a_token_passes_all_stages() -> None:
    """Two stages do half of the layers each, and hand on twice."""
    got = plain(num_hidden_layers=8)
    found = on(got, machine("h200", 8))
    one, two = found.choice("tp1"), found.choice("pp2")
    assert one is not None
    assert two is not None
    assert one.times is not None
    assert two.times is not None
    hop = Assumed().hop_seconds
    assert two.times.tpot == pytest.approx(one.times.tpot + 2 * hop, rel=1e-2)


def test_meshes_use_every_gpu_once() -> None:
    found = list(meshes(24, experts=True))
    assert len({mesh.name + f"x{mesh.replicas}" for mesh in found}) == len(found)
    for mesh in found:
        assert mesh.tp * mesh.cp * mesh.pp * mesh.replicas == 24
        assert mesh.ep == 1 or (mesh.ep % mesh.cp == 0 and mesh.tp * mesh.cp % mesh.ep == 0)
    assert {mesh.name for mesh in meshes(2, experts=False)} == {"tp1", "tp2", "cp2", "pp2"}


def test_the_table_of_gpus_is_sane() -> None:
    for name, gpu in gpus().items():
        assert gpu.name == name
        assert 40e9 <= gpu.memory <= 400e9
        assert gpu.link < gpu.bandwidth < gpu.rates["bf16"]
        assert gpu.rate("fp8_b128") == gpu.rates.get("fp8", gpu.rates["bf16"])
        assert gpu.rate("mxfp4") == gpu.rate("bf16") == gpu.rates["bf16"]
        assert gpu.source


def test_a_machine_that_nobody_has_is_refused() -> None:
    with pytest.raises(Day0Error, match="--gpu is 'h2000'.*h200") as caught:
        machine("h2000")
    assert "h200" in caught.value.hint
    for count in (0, -1, 1025):
        with pytest.raises(Day0Error, match=f"--num-gpus is {count}; it must be 1 to 1024"):
            machine("h200", count)
    assert (machine().count, machine("b200").count, machine(None, 4).gpu.name) == (8, 1, "h200")


def test_what_is_unknown_is_told() -> None:
    got = analysis(small(model_type="nobody_knows", strange_mixer=3))
    unknown = sum(op.family == "unknown" for op in got.model.graphs["main"].ops)
    assert on(got, machine("h200", 2)).unknown == unknown


def test_the_json_holds_the_plan(corpus: Path) -> None:
    found = on(analysis(corpus_config(corpus, QWEN25)), machine("h200", 8))
    data = json.loads(json.dumps(parallel(found), allow_nan=False))
    assert data["assumed"] == asdict(found.assumed)
    assert data["recommended"] == {"latency": found.latency, "throughput": found.throughput}
    assert data["tensor_parallel"][0]["legal"] == [1, 2, 4]
    assert {row["mesh"] for row in data["legal"]} == {one.mesh.name for one in found.choices}
    for row in data["legal"]:
        sizes = [size for name, size in row["memory"].items() if name != "total_bytes"]
        assert sum(sizes) == row["memory"]["total_bytes"]
        assert row["tp"] * row["cp"] * row["pp"] * row["replicas"] == 8
        assert row["predicted"]["ttft_ms"] > row["predicted"]["tpot_ms"] > 0
    refused = [name for group in data["illegal"] for name in group["meshes"]]
    assert refused == ["tp8"]
    assert [row["ranks"] for row in data["sequence"]["balance"]] == [2, 4, 8]


def test_state_passing_of_kimi_k3(corpus: Path) -> None:
    """Maps of 96 heads of 128 x (128 + 128) in fp32, one for each of two blocks a rank."""
    found = on(analysis(corpus_config(corpus, KIMI_K3)), machine("h200", 8))
    for row in found.sequence.passing:
        assert (row.family, row.layers) == ("kda", 69)
        assert row.state_bytes == 2 * row.ranks * 96 * 128 * 256 * 4
        assert row.relayout_bytes == 2 * 8192 // row.ranks * 7168 * 2
        assert row.break_even == math.ceil(row.state_bytes * row.ranks / (4 * 7168))


def test_the_plan_is_quick(corpus: Path) -> None:
    """A small part of the second and a half that all plans together may take."""
    got = analysis(corpus_config(corpus, KIMI_K3), quant="fp8")
    taken = min(_seconds(lambda: on(got, machine("h200", 8))) for _ in range(3))
    assert taken < 0.4 * slowed()


def _seconds(what: Callable[[], object]) -> float:
    start = time.process_time()
    what()
    return time.process_time() - start
