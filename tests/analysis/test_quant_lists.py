"""What entries of exclusion lists name, whatever their spelling, and what a GPU takes."""

from dataclasses import replace
from pathlib import Path

import pytest

from day0.analysis.analyze import analyze, of_checkpoint
from day0.analysis.machine import gpus, machine
from day0.analysis.quant_lists import capabilities, exclusions, fusions
from day0.checkpoint.source import Checkpoint
from day0.ir.recipe import RECIPES
from day0.models.quant_config import quant_config
from day0.report.analysis_json import to_json
from tests.field_cases.asking import analysis, corpus_config, headers, small, wanted, warnings

CONFIG = small(num_hidden_layers=12, tie_word_embeddings=False)
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def listed(entries: list[str], *, spelled: bool = True) -> dict[str, tuple[int, int, int]]:
    """entry -> (how many, weights, params) for a model of twelve layers."""
    found = analysis(CONFIG, wanted(CONFIG) if spelled else None)
    block = {"quantization_config": {**FP8, "modules_to_not_convert": entries}}
    hint = quant_config(block)
    assert hint is not None
    rows = exclusions(found.model, hint, headers=spelled)
    return {row.entry: (row.entries, row.weights, row.params) for row in rows}


Q, DOWN = 32 * 24, 24 * 40


@pytest.mark.parametrize("spelled", [True, False])
@pytest.mark.parametrize(
    ("entries", "told"),
    [
        (["q_proj"], {"q_proj": (1, 12, 12 * Q)}),  # a short name
        (["model.layers.1.self_attn.q_proj"],
         {"model.layers.1.self_attn.q_proj": (1, 1, Q)}),  # layer 1 is none of 10 and 11
        (["layers.3.self_attn.q_proj", "layers.11.self_attn.q_proj"],
         {"layers.*.self_attn.q_proj": (2, 2, 2 * Q)}),  # without the wrapper, two as one kind
        (["language_model.model.layers.2.mlp.down_proj"],
         {"language_model.model.layers.2.mlp.down_proj": (1, 1, DOWN)}),  # with another's
        (["re:.*down_proj$"], {"re:.*down_proj$": (1, 12, 12 * DOWN)}),
        (["re:.*layers\\.(1|10)\\.mlp.*"],
         {"re:.*layers\\.(1|10)\\.mlp.*": (1, 6, 6 * DOWN)}),
        (["model.layers.1*"],
         {"model.layers.1*": (1, 3 * 7, 3 * (2 * Q + 2 * 16 * 24 + 3 * DOWN))}),
        (["vision_tower"], {"vision_tower": (1, 0, 0)}),
    ],
)  # fmt: skip
def test_an_entry_names_weights_in_any_spelling(
    entries: list[str], told: dict[str, tuple[int, int, int]], spelled: bool
) -> None:
    assert listed(entries, spelled=spelled) == told


def test_without_headers_the_lists_spelling_counts() -> None:
    """What the plain names call mlp the list calls feed_forward: with headers that is nothing."""
    entry = "feed_forward.down_proj"
    assert listed([entry], spelled=False) == {entry: (1, 12, 12 * DOWN)}
    assert listed([entry]) == {entry: (1, 0, 0)}


def test_lists_of_kimi_k3_and_glm(corpus: Path) -> None:
    k3 = analysis(corpus_config(corpus, "moonshotai__Kimi-K3"))
    rows = {row.entry: row for row in exclusions(k3.model, k3.quant_config, headers=False)}
    shared = rows["re:.*shared_experts.*"]
    assert (shared.weights, shared.params) == (276, 92 * 3 * 7168 * 6144)
    assert rows["re:.*vision_tower.*"].weights == 0
    glm = analysis(corpus_config(corpus, "zai-org__GLM-5.2-FP8"))
    rows = {row.entry: row for row in exclusions(glm.model, glm.quant_config, headers=False)}
    gates = rows["model.layers.*.mlp.gate"]
    assert (gates.entries, gates.weights, gates.params) == (76, 76, 76 * 256 * 6144)
    assert not any(row.quantised for row in rows.values())
    assert len(rows) < 20 < len(glm.quant_config.listed)  # pyright: ignore


def test_excluded_but_stored_quantised_is_counted_in_its_row() -> None:
    tensors = wanted(CONFIG)
    name = "model.layers.4.self_attn.q_proj.weight"
    tensors[name] = ("F8_E4M3", tensors[name][1])
    tensors[f"{name}_scale_inv"] = ("F32", (1, 1))
    block = {**FP8, "modules_to_not_convert": ["q_proj"]}
    found = analysis({**CONFIG, "quantization_config": block}, tensors)
    (row,) = exclusions(found.model, found.quant_config)
    assert (row.weights, row.quantised) == (12, 1)
    assert "quant.excluded-but-quantised" in warnings(found)
    assert to_json(found)["quant"]["exclusions"][0]["quantised"] == 1


def test_a_module_that_cannot_be_fused_is_a_remark_with_its_parts() -> None:
    """q of one layer is FP8, k and v are not: an engine's qkv would mix them (field case 114)."""
    tensors = wanted(CONFIG)
    name = "model.layers.4.self_attn.q_proj.weight"
    tensors[name] = ("F8_E4M3", tensors[name][1])
    tensors[f"{name}_scale_inv"] = ("F32", (1, 1))
    found = analysis({**CONFIG, "quantization_config": FP8}, tensors)
    told = {item.code: item for item in fusions(found.model, found.quant_config)}
    assert told["quant.fused-formats"].severity == "info"
    assert set(told["quant.fused-formats"].evidence) == {
        f"model.layers.4.self_attn.{part}_proj.weight" for part in "qkv"
    }
    assert "quant.fused-formats" in {item.code for item in found.findings}
    assert fusions(found.model, None) == ()


def test_a_list_that_lacks_a_part_is_a_remark() -> None:
    """Field case 115: q and k are listed, v is not, all are stored bf16."""
    block = {**FP8, "modules_to_not_convert": ["q_proj", "k_proj"]}
    found = analysis({**CONFIG, "quantization_config": block}, wanted(CONFIG))
    told = {item.code: item for item in fusions(found.model, found.quant_config)}
    assert told["quant.fused-lists"].evidence == (
        "model.layers.*.self_attn.v_proj.weight (12 tensors)",
    )


@pytest.mark.parametrize(
    ("gpu", "format", "units", "native"),
    [
        ("h200", "fp8_b128", "fp8", True),
        ("h200", "mxfp8", "fp8", False),
        ("b200", "mxfp8", "fp8", True),
        ("b200", "nvfp4", "fp4", True),
        ("h200", "mxfp4", "bf16", False),
        ("a100", "fp8_channel", "bf16", False),
        ("h200", "awq4_g128", "bf16", False),
    ],
)
def test_matrix_units(gpu: str, format: str, units: str, native: bool) -> None:
    (row,) = capabilities(["bf16", format, format], gpus()[gpu])
    assert (row.format, row.units, row.native) == (format, units, native)
    assert row.words


def test_a_stated_gpu_without_units_is_a_warning() -> None:
    assert "quant.hardware" in warnings(analyze("demo", quant="fp8", gpu="a100"))
    assert "quant.hardware" not in warnings(analyze("demo", quant="fp8", gpu="h200"))
    assert "quant.hardware" not in warnings(analyze("demo", quant="bf16", gpu="a100"))
    assert "quant.hardware" not in warnings(analyze("demo", quant="fp8"))


def test_a_stated_gpu_is_what_operators_are_judged_by() -> None:
    old, new = (analyze("demo", gpu=gpu) for gpu in ("a100", "h200"))
    assert old.new_fraction.ops > new.new_fraction.ops
    reasons = [reason for entry in old.entries for reason in entry.verdict.reasons]
    assert any("capability (8, 0)" in reason for reason in reasons)


def test_the_machine_may_be_handed_over() -> None:
    checkpoint = Checkpoint(id="x", revision="", origin="folder", config=small(),
                            headers=headers(wanted(small())), quant_sidecar=None)  # fmt: skip
    found = of_checkpoint(checkpoint, recipe=RECIPES["bf16"], planned=machine("b200", 4))
    assert (found.machine.gpu.name, found.machine.count) == ("b200", 4)
    assert replace(found.machine, stated=False) == replace(machine("b200", 4), stated=False)
