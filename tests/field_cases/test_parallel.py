"""Field cases of the section on parallelism plans."""

import math
from pathlib import Path
from typing import Any

import pytest

from day0.analysis.analyze import Analysis
from day0.analysis.kinds import Kinds, kinds_of
from day0.analysis.machine import machine
from day0.analysis.parallel.mesh import Law, Mesh, legal_degrees
from day0.analysis.parallel.plan import ParallelPlan, plan
from day0.analysis.parallel.share import Shares, Step
from day0.analysis.parallel.stages import Stages
from day0.analysis.parallel.traffic import Traffic
from day0.registry.zigzag import halo_tokens, spans
from tests.field_cases.asking import analysis, corpus_config, small, wanted

V3 = "deepseek-ai__DeepSeek-V3"
QWEN36 = "Qwen__Qwen3.6-35B-A3B"
QWEN3 = "Qwen__Qwen3-235B-A22B-FP8"
KIMI_K3 = "moonshotai__Kimi-K3"
OSS = "openai__gpt-oss-20b"


def kinds(got: Analysis) -> Kinds:
    return kinds_of(got.model, got.recipe, got.entries)


def law(config: dict[str, Any], *, stored: bool = False, quant: str = "fp8") -> Law:
    return Law(kinds(analysis(config, quant=quant)), stored=stored)


def planned(got: Analysis, count: int, gpu: str = "h200") -> ParallelPlan:
    return plan(got.model, got.recipe, got.entries, machine(gpu, count), got.bytes.checkpoint)


def shares(got: Analysis, count: int = 8) -> tuple[Shares, Stages]:
    found = Shares(kinds(got), got.recipe, machine("h200", count))
    return found, Stages(found.found, ())


def test_case_081_shards_off_the_blocks_are_refused_and_whole_experts_proposed(
    corpus: Path,
) -> None:
    for stored in (False, True):
        one = law(corpus_config(corpus, V3), stored=stored)
        assert 16 in legal_degrees(one)
        assert 32 not in legal_degrees(one)
        dense, routed = one.of("tp", 32), one.of("experts", 32)
        assert any("18432/32 = 576 is no multiple of 128" in reason for reason in dense)
        assert any("2048/32 = 64 is no multiple of 128" in reason for reason in routed)
        assert all("(EP)" in reason for reason in routed)
        assert one.of("ep", 32) == ()


def test_case_082_a_shard_smaller_than_a_block(corpus: Path) -> None:
    one = law(corpus_config(corpus, QWEN36))
    assert legal_degrees(one) == (1, 2, 4)
    assert any("ffn.shared.down_proj: K 512/8 = 64" in reason for reason in one.of("tp", 8))
    # two key heads are repeated, so nothing but the blocks is in the way
    assert 8 in legal_degrees(law(corpus_config(corpus, QWEN36), quant="bf16"))


@pytest.mark.parametrize(("inner", "legal"), [(320, (1,)), (640, (1,)), (512, (1, 2, 4))])
def test_case_083_legal_degrees_by_formats(inner: int, legal: tuple[int, ...]) -> None:
    """The checkpoint's blocks, and the same model in bf16; whole experts need no cut."""
    words = {
        "model_type": "qwen3_moe", "hidden_size": 256, "num_attention_heads": 8, "head_dim": 32,
        "num_key_value_heads": 8, "num_experts": 16, "num_experts_per_tok": 2,
        "moe_intermediate_size": inner, "norm_topk_prob": True, "decoder_sparse_step": 1,
        "quantization_config": {"quant_method": "fp8", "fmt": "e4m3",
                                "weight_block_size": [128, 128]},
    }  # fmt: skip
    got = analysis(small(**words), quant="bf16")
    assert got.bytes.by_format["fp8_b128"] > 0
    both = {row.formats.partition(" (")[0]: row.legal for row in planned(got, 8).degrees}
    assert both["recipe bf16"] == (1, 2, 4, 8)
    stored = Law(kinds(got), stored=True)
    routed = tuple(n for n in (1, 2, 4, 8) if not stored.of("experts", n))
    assert routed == legal
    assert set(both["as stored"]) <= set(legal)
    assert all(stored.of("ep", n) == () for n in (2, 4, 8, 16))


def test_case_084_all_violations_at_once(corpus: Path) -> None:
    told = law(corpus_config(corpus, QWEN3), stored=True).of("experts", 8)
    assert [reason.split(": ")[2].split(" =")[0] for reason in told] == [
        "N 1536/8", "N 1536/8", "K 1536/8",
    ]  # fmt: skip
    assert all("1536/8 = 192" in reason for reason in told)


def test_case_086_windows_stay_windows_under_a_context_split(corpus: Path) -> None:
    """A rank asks for the window before each of its two blocks, and holds windows whole."""
    got = analysis(corpus_config(corpus, OSS))
    found, stages = shares(got)
    assert Law(found.found).of("cp", 2) == ()
    entry, full, windowed, window = 2 * 8 * 64 * 2, 12, 12, 128
    (whole,) = stages.of(1)
    for cp in (1, 2, 4):
        held = found.caches(Mesh(cp=cp), whole, 8192)
        assert held == entry * (full * 8192 // cp + windowed * window)
    traffic = Traffic(got.model, found)
    sent = traffic.messages(Mesh(cp=4), Step(phase="prefill", rows=8192, length=8192))
    sizes = sorted((one.bytes, one.times) for one in sent)
    assert sizes == [(2 * window * entry, 1), (8192 * entry * 3 / 4, 1)]
    # blocks are shorter than the window: a rank asks for no more than others hold
    short = traffic.messages(Mesh(cp=2), Step(phase="prefill", rows=128, length=128))
    assert [one.bytes for one in short] == [64 * entry, 64 * entry]


def test_case_087_a_rank_sees_its_share_of_the_bound() -> None:
    """ceil((global - rank) / world) tokens, and none where there are too few."""
    for tokens in range(1, 12):
        for world in (2, 3, 4):
            held = spans("interleaved", tokens, world)
            counts = [sum(len(range(*span)) for span in rank) for rank in held]
            assert counts == [max(math.ceil((tokens - r) / world), 0) for r in range(world)]


def test_case_088_a_block_shorter_than_the_taps_asks_two_neighbours() -> None:
    first, second = spans("zigzag", 4, 2)
    assert [span[:2] for span in first] == [(0, 1), (3, 4)]
    assert [span[:2] for span in second] == [(1, 2), (2, 3)]
    assert halo_tokens(first, 4) == (1, 2)
    assert halo_tokens(second, 4) == (0,)


def test_case_092_the_memory_of_the_rank_with_22_experts(corpus: Path) -> None:
    got = analysis(corpus_config(corpus, QWEN3))
    found, _ = shares(got, count=6)
    number = next(at for at, kind in enumerate(found.found.kinds) if kind.expert)
    part = found.part(number, Mesh(cp=6, ep=6))
    one = 1536 * 4096 * 2
    assert part.bytes == {"gate": 22 * one, "up": 22 * one, "down": 22 * one}
    assert [128 // 6 + (rank < 128 % 6) for rank in range(6)] == [22, 22, 21, 21, 21, 21]


def test_case_093_a_tower_is_held_whole_and_forbids_nothing() -> None:
    config = small(num_attention_heads=8, num_key_value_heads=4, tie_word_embeddings=False)
    tower = {"vision_tower.blocks.0.attn.qkv.weight": ("BF16", (3 * 25 * 128, 25 * 128))}
    got = analysis(config, {**wanted(config), **tower})
    bytes_of_it = 3 * 25 * 128 * 25 * 128 * 2
    assert [group.bytes for group in got.model.groups] == [bytes_of_it]
    found = planned(got, 4)
    assert 4 in found.degrees[0].legal
    assert {choice.memory.aside for choice in found.choices} == {bytes_of_it}
    choice = found.choice("tp4")
    assert choice is not None
    assert choice.memory.total >= bytes_of_it


def test_case_094_an_operator_that_loses_its_kernel_by_the_split_is_told(corpus: Path) -> None:
    words = {
        "model_type": "qwen3_moe", "hidden_size": 256, "num_attention_heads": 8, "head_dim": 32,
        "num_key_value_heads": 8, "num_experts": 16, "num_experts_per_tok": 2,
        "moe_intermediate_size": 48, "norm_topk_prob": True, "decoder_sparse_step": 1,
    }  # fmt: skip
    found = planned(analysis(small(**words)), 4)
    lost = {choice.mesh.name: choice.fallback for choice in found.choices}
    assert lost["tp2"] == ()
    (told,) = lost["tp4"]
    assert told.startswith("layers.0.ffn.experts: ")
    assert "intermediate 12" in told
    assert lost["tp4ep4"] == ()
    # 6 heads a rank keep the kernels of Kimi-K3's linear layers
    got = analysis(corpus_config(corpus, KIMI_K3))
    over_sixteen = planned(got, 16).choice("tp16")
    assert over_sixteen is not None
    assert not any(".kda" in told for told in over_sixteen.fallback)
