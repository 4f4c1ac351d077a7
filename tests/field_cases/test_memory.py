"""Field cases of the section on memory that no test of a single room covers."""

from pathlib import Path
from typing import Any

import pytest

from day0.analysis import caches
from day0.analysis.analyze import Analysis
from day0.ir.recipe import RECIPES
from day0.registry.families.experts import distinct
from day0.registry.family import Context, Shapes
from day0.registry.index import family
from day0.report.analysis_json import to_json
from tests.field_cases.asking import analysis, corpus_config, small

QWEN35 = "Qwen__Qwen3.5-122B-A10B"
FOUR_BITS = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32},
        }
    },
}
# 26 layers, one in six global, a window of 512, one key head of 256 (gemma-3-1b's sizes)
WINDOWED: dict[str, Any] = {
    "num_hidden_layers": 26,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "sliding_window": 512,
    "layer_types": ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(26)],
}
ENTRY = 2 * 256 * 2


def held(found: Analysis, tokens: int) -> int:
    return caches.held(found.model, found.recipe, tokens)


def row_of(found: Analysis, name: str) -> dict[str, Any]:
    return next(row for row in caches.rows(found.model, found.recipe) if row["name"] == name)


def test_case_051_resident_weights_are_all_parameters(corpus: Path) -> None:
    """122B at 4 bits: 72 GB, not the 33 GB of its active part."""
    config = corpus_config(corpus, QWEN35)
    plain = analysis(config)
    # the hub's 125.09e9 hold a vision tower, which a config alone does not show
    assert plain.params.total == 125_086_497_008 - 451_290_864
    assert plain.bytes.checkpoint == 2 * plain.params.total
    packed = analysis({**config, "quantization_config": FOUR_BITS})
    assert packed.params == plain.params
    assert packed.bytes.checkpoint > 70e9
    assert packed.bytes.by_format["int4_g32"] > 0.9 * packed.bytes.checkpoint


@pytest.mark.parametrize(
    "name",
    [
        "openai__gpt-oss-20b",
        "deepseek-ai__DeepSeek-V4-Flash-0731",
        "moonshotai__Kimi-K3",
        "zai-org__GLM-5.2",
        "zai-org__GLM-5.3-Flash",
        QWEN35,
    ],
)
def test_case_055_one_formula_in_one_report(corpus: Path, name: str) -> None:
    """Rows, totals and curve agree: what fits into a budget follows from the printed rate."""
    found = analysis(corpus_config(corpus, name))
    report = to_json(found)
    rows = report["caches"]
    growing = sum(
        len(row["layers"]) * (row["bytes_per_token"] + row["bytes_per_pool"] / (row["pool"] or 1))
        for row in rows
    )
    rate = report["kv_bytes_per_token"] + report["index_bytes_per_token"]
    assert growing == rate
    fixed = sum(len(row["layers"]) * row["bytes_per_sequence"] for row in rows)
    assert fixed == report["state_bytes_per_sequence"] + report["window_bytes_per_sequence"]
    for entry in report["memory"]["sequence"]:  # beyond every window, at whole pools
        assert entry["bytes"] == entry["tokens"] * rate + fixed
    budget = 75 * 2**30
    tokens = (budget - fixed) // rate // 128 * 128
    assert held(found, int(tokens)) <= budget < held(found, int(tokens) + 128)


@pytest.mark.parametrize("tokens", [1, 100, 511, 512, 513, 4096])
def test_case_057_windows_are_capped_not_left_out(tokens: int) -> None:
    """The kind, with words of a covered type."""
    found = analysis(small(**WINDOWED))
    assert held(found, tokens) == 4 * ENTRY * tokens + 22 * ENTRY * min(tokens, 512)


def test_case_058_windows_and_latents_against_the_flat_formula(corpus: Path) -> None:
    """139 MiB where 2 * L * kv * d gives 832; a latent cache is told by its name and entry."""
    found = analysis(small(**WINDOWED))
    assert held(found, 32_768) == 145_752_064
    assert round(145_752_064 / 2**20) == 139
    assert 26 * ENTRY * 32_768 == 832 * 2**20
    lite = analysis(corpus_config(corpus, "deepseek-ai__DeepSeek-V2-Lite"))
    row = row_of(lite, "latent")
    assert (row["growth"], row["bytes_per_token"]) == ("per-token", (512 + 64) * 2)
    (op,) = (op for op in lite.model.graphs["main"].ops if op.id == "layers.0.mixer.attend")
    decompressed = (
        2
        * op.attr("num_heads")
        * (op.attr("nope_dim") + op.attr("rope_dim") + op.attr("value_dim"))
    )
    assert decompressed == 10_240 > row["bytes_per_token"]


@pytest.mark.parametrize("model_type", ["qwen3_5_text", "a_name_nobody_knows"])
@pytest.mark.parametrize("key", ["layer_types", "full_attention_interval"])
def test_case_059_hybrids_are_told_by_words_not_by_name(model_type: str, key: str) -> None:
    """Sizes of a 9B hybrid: 8 of 32 layers grow, a quarter of what a dense one would."""
    kinds = ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 8
    config = small(
        model_type=model_type, hidden_size=4096, num_hidden_layers=32, num_attention_heads=16,
        num_key_value_heads=4, head_dim=256, linear_num_key_heads=16, linear_num_value_heads=32,
        linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4,
        **{key: kinds if key == "layer_types" else 4},
    )  # fmt: skip
    found = analysis(config)
    totals = found.cache_totals
    assert totals.kv_bytes_per_token == 8 * 2 * 4 * 256 * 2 == 32_768
    assert totals.state_bytes_per_sequence == 24 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)


def test_case_062_minimum_and_what_equal_pages_reserve(corpus: Path) -> None:
    found = analysis(corpus_config(corpus, "openai__gpt-oss-20b"))
    assert held(found, 8192) == 12 * 2048 * 8192 + 12 * 2048 * 128 == 204_472_320
    assert caches.paged(found.model, found.recipe, 8192) == 24 * 2048 * 8192 == 402_653_184
    assert round(32 * 204_472_320 / 2**30, 2) == 6.09
    assert 32 * 402_653_184 == 12 * 2**30
    for entry in to_json(found)["memory"]["sequence"]:
        assert entry["bytes"] == held(found, entry["tokens"])
        assert entry["equal_pages_bytes"] == 24 * 2048 * entry["tokens"]


@pytest.mark.parametrize("tokens", [1, 1024, 4096])
def test_case_062_equal_pages_are_as_large_as_the_largest(tokens: int) -> None:
    """The kind of case 80: layers of different geometry in pages of one size."""
    own = {str(i): {"num_key_value_heads": 4} for i in range(4)}
    found = analysis(
        small(
            num_hidden_layers=6, num_key_value_heads=2, sliding_window=1024, per_layer_config=own,
            layer_types=["sliding_attention"] * 4 + ["full_attention"] * 2,
        )
    )  # fmt: skip
    wide, narrow = 2 * 4 * 8 * 2, 2 * 2 * 8 * 2
    assert held(found, tokens) == 4 * wide * min(tokens, 1024) + 2 * narrow * tokens
    assert caches.paged(found.model, found.recipe, tokens) == 6 * wide * tokens


@pytest.mark.parametrize("key", ["mamba_ssm_dtype", "mamba_ssm_cache_dtype"])
@pytest.mark.parametrize(
    ("word", "form"),
    [("float32", "fp32"), ("bfloat16", "bf16"), ("float16", "fp16"), (None, "fp32")],
)
def test_case_069_the_state_has_the_dtype_of_its_own_key(
    corpus: Path, key: str, word: str | None, form: str
) -> None:
    config = corpus_config(corpus, QWEN35)
    text = config["text_config"]
    del text["mamba_ssm_dtype"]
    if word is not None:
        text[key] = word
    found = analysis(config)
    state = row_of(found, "state")
    size = {"fp32": 4, "bf16": 2, "fp16": 2}[form]
    assert (state["format"], state["bytes_per_sequence"]) == (form, size * 64 * 128 * 128)
    assert {row["format"] for row in to_json(found)["caches"]} == {form, "bf16"}
    assert found.cache_totals.state_bytes_per_sequence == 36 * (
        size * 64 * 128 * 128 + 2 * 3 * (2 * 16 + 64) * 128
    )
    assert row_of(analysis(config, quant="fp32"), "state")["format"] == "fp32"


def test_case_069_a_dtype_nobody_knows_is_a_guess() -> None:
    config = small(
        model_type="qwen3_next", linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=4, linear_value_head_dim=6, linear_conv_kernel_dim=4,
        layer_types=["linear_attention", "full_attention"], mamba_ssm_dtype="posit16",
    )  # fmt: skip
    fact = analysis(config).model.facts["gdn.state_format"]
    assert (fact.value, fact.how, fact.decisive) == ("fp32", "assumed", True)
    assert "posit16" in fact.source


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("recipe", ["fp32", "bf16", "fp8"])
def test_case_070_conv_state_has_the_dtype_of_activations(
    corpus: Path, dtype: str, recipe: str
) -> None:
    """Whatever the file was saved in: the tail holds activations of the run, the state does not."""
    config = corpus_config(corpus, QWEN35)
    config["text_config"]["dtype"] = dtype
    found = analysis(config, quant=recipe)
    plain = RECIPES[recipe].plain
    for name in ("q_conv.tail", "k_conv.tail", "v_conv.tail"):
        assert row_of(found, name)["format"] == plain
    assert row_of(found, "state")["format"] == "fp32"
    canonical = next(c for n, c in found.model.caches.items() if n.endswith("q_conv.tail"))
    assert canonical.parts[0][1].format == found.spec.dtype


def test_case_071_state_of_kimi_k3_is_in_the_report(corpus: Path) -> None:
    found = analysis(corpus_config(corpus, "moonshotai__Kimi-K3"))
    report = to_json(found)
    (state,) = (row for row in report["caches"] if row["role"] == "state")
    recurrent = len(state["layers"]) * state["bytes_per_sequence"]
    assert recurrent == 69 * 96 * 128 * 128 * 4 == 434_110_464
    assert recurrent // 8 == 54_263_808
    tails = 69 * 3 * 3 * 96 * 128 * 2
    assert report["state_bytes_per_sequence"] == recurrent + tails


def test_case_073_capacity_is_total_traffic_is_active(corpus: Path) -> None:
    found = analysis(corpus_config(corpus, "mistralai__Mixtral-8x22B-v0.1"))
    assert found.bytes.checkpoint == 2 * found.params.total
    assert round(found.params.total / 1e9) == 141
    read = found.costs["decode_4k"].weight_bytes
    # a router and one row of the embedding beside the active weights
    assert read == pytest.approx(2 * found.params.active, rel=1e-3)
    assert round((found.params.active + found.params.embedding) / 1e9) == 39


@pytest.mark.parametrize(
    ("rows", "expected"), [(1, 8.0), (8, 51.6), (32, 111.8)], ids=["one", "eight", "many"]
)
def test_case_075_distinct_experts_are_an_expectation(rows: int, expected: float) -> None:
    assert round(distinct(128, 8, rows), 1) == expected
    assert distinct(128, 8, rows) <= min(128, 8 * rows) + 1e-9
    # one of eight ranks: a row's chance is that of the whole pool
    assert distinct(128, 8, rows, local=16) == pytest.approx(distinct(128, 8, rows) / 8)


def test_case_075_the_cost_of_a_step_asks_for_it(corpus: Path) -> None:
    found = analysis(corpus_config(corpus, "Qwen__Qwen3-30B-A3B"))
    entry = next(entry for entry in found.entries if entry.family == "experts")
    shapes: Shapes = entry.shapes
    share = family("experts").share(shapes, Context(rows=8))["gate"]
    assert share == pytest.approx(distinct(128, 8, 8) / 128)
    assert family("experts").share(shapes, Context())["gate"] == pytest.approx(8 / 128)
