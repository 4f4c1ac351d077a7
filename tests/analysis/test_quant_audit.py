"""The quantisation audit: bytes to the last digit, and each contradiction once."""

import json
import math

import pytest

from day0.analysis.quant_audit import audit, fused, grouped
from day0.checkpoint.headers import TensorHeader
from day0.ir.weight import Leaf
from day0.models.quant_config import quant_config
from day0.models.stored import Stored, companion_of, logical_dims, recognise
from tests import corpus as corpus_place
from tests import listing

FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
# model -> share of the parameters that is quantised, codes of the findings
REAL = {
    "Qwen__Qwen3-Next-80B-A3B-Instruct": (0.0, []),
    "TheBloke__Llama-2-7B-AWQ": (96.11, []),
    "deepseek-ai__DeepSeek-V3.2": (99.42, ["quant.listed-but-plain"]),
    "deepseek-ai__DeepSeek-V4-Flash-0731": (99.50, ["quant.listed-but-plain"]),
    "moonshotai__Kimi-K3": (97.94, ["quant.listed-but-plain"]),
    "moonshotai__Kimi-Linear-48B-A3B-Instruct": (0.0, []),
    "openai__gpt-oss-20b": (91.37, []),
    "zai-org__GLM-5.2": (0.0, []),
}


def entries_of(rows, tensors, config):
    """The leaves that a model with these tensors would have, experts as stacks."""
    for row in rows:
        for layer in row.layers or (0,):
            stored = row.pattern.replace("{L}", str(layer)).replace("{E}", "{e}")
            if companion_of(stored.replace("{e}", "0"), tensors):
                continue
            name = stored.removesuffix("_blocks")
            for suffix in (".weight_packed", ".qweight"):
                if name.endswith(suffix):
                    name = name.removesuffix(suffix) + ".weight"
            first = recognise(name.replace("{e}", "0"), row.shape, tensors, config)
            dims = logical_dims(first, tensors)
            assert dims is not None
            found = recognise(name, dims, tensors, config)
            leaf = Leaf(name=name, dims=dims, format=found.format, parts=found.parts)
            yield name, leaf, row.dtype, math.prod(dims) * (len(row.experts) or 1)


def entry(name, dims, tensors, config, count=1):
    found: Stored = recognise(name, dims, tensors, config)
    leaf = Leaf(name=name, dims=dims, format=found.format, parts=found.parts)
    data = tensors.get(found.data.replace("{e}", "0"))
    return name, leaf, data.dtype if data else None, math.prod(dims) * count


def header(dtype, *shape):
    return TensorHeader(dtype, shape, 0, 0, "")


def judge(weights, tensors, block, sidecar=None):
    """Audit of (name, dims) pairs under a quantisation block."""
    config = quant_config({"quantization_config": block} if block else {}, sidecar)
    found = audit([entry(*weight, tensors, config) for weight in weights], config, tensors)
    return [(one.code, one.severity, one.evidence) for one in found.conflicts]


@pytest.mark.parametrize("name", corpus_place.names("headers", ".tsv"))
def test_real_checkpoints_add_up_and_are_no_fault(corpus, name):
    path = corpus / "headers" / f"{name}.tsv"
    config = quant_config(json.loads((corpus / "configs" / f"{name}.json").read_text()))
    headers = listing.headers(path)
    entries = list(entries_of(listing.rows(path), headers.tensors, config))
    found = audit(entries, config, headers.tensors)
    coverage, codes = REAL[name]
    assert sum(row.bytes for row in found.stored) == headers.data_bytes
    assert round(found.coverage, 2) == coverage
    assert [one.code for one in found.conflicts] == codes
    assert {one.severity for one in found.conflicts} <= {"info"}
    by_format = audit(entries, config)
    assert [row.format for row in by_format.stored] == [row.format for row in found.stored]
    assert sum(row.bytes for row in by_format.stored) == headers.data_bytes


def test_kimi_k3_names_what_its_list_forgets(corpus):
    name = "moonshotai__Kimi-K3"
    path = corpus / "headers" / f"{name}.tsv"
    config = quant_config(json.loads((corpus / "configs" / f"{name}.json").read_text()))
    tensors = listing.headers(path).tensors
    found = audit(entries_of(listing.rows(path), tensors, config), config, tensors)
    assert (found.stored[0].format, found.stored[0].weights) == ("mxfp4", 247_296)
    assert sum(row.parameters for row in found.stored) == 2_779_931_837_184
    moe = "language_model.model.layers.*.block_sparse_moe"
    assert f"{moe}.routed_expert_down_proj.weight (92 tensors)" in found.conflicts[0].evidence
    assert f"{moe}.routed_expert_up_proj.weight (92 tensors)" in found.conflicts[0].evidence


def test_a_missing_scale_is_an_error_with_its_name():
    tensors = {}
    for expert in range(4):
        tensors[f"experts.{expert}.w1.weight"] = header("F8_E4M3", 256, 256)
        tensors[f"experts.{expert}.w1.weight_scale_inv"] = header("F32", 2, 2)
    weights = [("experts.{e}.w1.weight", (256, 256))]
    config = quant_config({"quantization_config": FP8})
    whole = audit([entry(*weights[0], tensors, config, 4)], config, tensors)
    assert whole.conflicts == ()
    for expert in range(4):
        damaged = dict(tensors)
        del damaged[f"experts.{expert}.w1.weight_scale_inv"]
        found = audit([entry(*weights[0], damaged, config, 4)], config, damaged)
        assert [(one.code, one.severity) for one in found.conflicts] == [
            ("quant.scale-missing", "error")]  # fmt: skip
        assert found.conflicts[0].evidence == (f"experts.{expert}.w1.weight_scale_inv",)


def test_a_format_other_than_promised_is_a_warning():
    tensors = {"a.weight": header("F8_E4M3", 256, 256), "a.weight_scale_inv": header("F32")}
    assert judge([("a.weight", (256, 256))], tensors, FP8) == [
        ("quant.format-differs", "warning", ("a.weight",))]  # fmt: skip
    ue8m0 = FP8 | {"scale_fmt": "ue8m0"}
    tensors["a.weight_scale_inv"] = header("F32", 2, 2)
    assert judge([("a.weight", (256, 256))], tensors, ue8m0) == []


def test_config_findings_pass_through():
    strange = FP8 | {"rotation": 1}
    assert judge([], {}, strange) == [("quant.unread", "info", ("rotation",))]
    block = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["a"]}
    side = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["b"]}}
    assert judge([], {}, block, side) == [("quant.sidecar-differs", "warning", ())]


def test_a_weight_used_twice_counts_once():
    tensors = {"a.weight": header("F8_E4M3", 256, 256), "a.weight_scale_inv": header("F32", 2, 2)}
    one = entry("a.weight", (256, 256), tensors, None)
    twice = audit([one, ("again", *one[1:])], None)
    assert (twice.stored[0].weights, twice.stored[0].bytes) == (1, 65_536 + 16)
    assert twice.coverage == 100.0


def test_names_are_grouped():
    names = [f"layers.{layer}.mlp.gate.weight" for layer in range(3)] + ["layers.7.x.weight"]
    assert grouped(names) == ("layers.*.mlp.gate.weight (3 tensors)", "layers.7.x.weight")


def test_99_bf16_mtp_that_no_list_names():
    name = "mtp.layers.0.mlp.experts.0.up_proj.weight"
    block = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    assert judge([(name, (2048, 4096))], {name: header("BF16", 2048, 4096)}, block) == [
        ("quant.listed-but-plain", "info", (name,))]  # fmt: skip


def test_105_the_evidence_for_fp4_experts_is_told():
    stem = "layers.3.ffn.experts.7.w1"
    tensors = {f"{stem}.weight": header("I8", 2048, 2048),
               f"{stem}.scale": header("F8_E8M0", 2048, 128)}  # fmt: skip
    block = FP8 | {"scale_fmt": "ue8m0"}
    assert judge([(f"{stem}.weight", (2048, 4096))], tensors, block) == [
        ("quant.experts-fp4", "info", (f"{stem}.weight",))]  # fmt: skip
    named = block | {"expert_dtype": "fp4"}
    assert judge([(f"{stem}.weight", (2048, 4096))], tensors, named) == []


def test_110_excluded_but_stored_quantised():
    tensors = {"lm_head.weight": header("U8", 64, 48), "lm_head.input_scale": header("F32"),
               "lm_head.weight_scale": header("F8_E4M3", 64, 6),
               "lm_head.weight_scale_2": header("F32")}  # fmt: skip
    side = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head*"]}}
    assert judge([("lm_head.weight", (64, 96))], tensors, None, side) == [
        ("quant.excluded-but-quantised", "warning", ("lm_head.weight",))]  # fmt: skip


def test_111_quantised_without_a_word_about_it():
    tensors = {"a.weight": header("U8", 64, 48), "a.weight_scale": header("F8_E4M3", 64, 6),
               "a.weight_scale_2": header("F32")}  # fmt: skip
    assert judge([("a.weight", (64, 96))], tensors, None) == [
        ("quant.config-absent", "info", ("a.weight",))]  # fmt: skip


def test_113_an_ignored_vision_tower_is_plain():
    name = "model.vision_tower.encoder.layers.0.self_attn.q_proj"
    group = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "group",
                                                "group_size": 32}}  # fmt: skip
    block = {"quant_method": "compressed-tensors", "format": "pack-quantized",
             "config_groups": {"group_0": group}, "ignore": [f"{name}.linear"]}  # fmt: skip
    weights = [(f"{name}.weight", (64, 64))]
    assert judge(weights, {f"{name}.weight": header("BF16", 64, 64)}, block) == []


PARTS = ("a.q_a_proj.weight", "a.kv_a_proj_with_mqa.weight")


def test_114_a_fused_module_follows_its_parts():
    config = quant_config({"quantization_config": FP8 | {"ignored_layers": [
        "q_a_proj", "kv_a_proj_with_mqa"]}})  # fmt: skip
    assert fused("a.fused", tuple((part, "bf16") for part in PARTS), config) is None
    mixed = fused("a.fused", ((PARTS[0], "bf16"), (PARTS[1], "fp8_b128")), config)
    assert mixed is not None
    assert (mixed.code, mixed.severity) == ("quant.fused-formats", "error")
    assert mixed.evidence == (f"{PARTS[0]}: bf16", f"{PARTS[1]}: fp8_b128")


def test_115_stored_formats_decide_and_the_missing_leaf_is_told():
    names = tuple(f"l.{stem}.weight" for stem in ("q_proj", "k_proj", "b_proj", "f_a_proj"))
    config = quant_config({"quantization_config": FP8 | {"ignored_layers": ["q_proj", "k_proj"]}})
    found = fused("l.in_proj_qkvgfab", tuple((name, "bf16") for name in names), config)
    assert found is not None
    assert (found.severity, found.evidence) == ("info", names[2:])


def test_126_one_scale_of_a_pair_and_none_at_all():
    block = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
    config = quant_config({"quantization_config": block})
    lone = {"l.0.self_attn.k_scale": header("F32"), "l.0.self_attn.v_scale": header("F32"),
            "l.1.self_attn.v_scale": header("F32")}  # fmt: skip
    found = audit([], config, lone)
    assert [(one.code, one.severity, one.evidence) for one in found.conflicts] == [
        ("quant.kv-scale-half", "warning", ("l.1.self_attn.v_scale",))]  # fmt: skip
    assert len(found.kv) == 2
    none = audit([], config, {})
    assert [one.code for one in none.conflicts] == ["quant.kv-scale-default"]
