"""Quantisation blocks and sidecars: every real one, the lists, and the field cases."""

import json
import random

import pytest

from day0.errors import Day0Error
from day0.ir import format as formats
from day0.models.module_patterns import parse
from day0.models.quant_config import KvScheme, quant_config
from tests import corpus as corpus_place

KV8 = KvScheme(format="fp8_e4m3")
MATRIX = (4096, 4096)


def real(corpus, name):
    """The parsed block of a corpus model, sidecar included."""
    config = json.loads((corpus / "configs" / f"{name}.json").read_text())
    sidecar = corpus / "quant_sidecars" / f"{name}_hf_quant_config.json"
    return quant_config(config, json.loads(sidecar.read_text()) if sidecar.exists() else None)


@pytest.mark.parametrize("name", corpus_place.names("configs", ".json"))
def test_every_config_parses_and_every_key_is_understood(corpus, name):
    text = (corpus / "configs" / f"{name}.json").read_text()
    found = real(corpus, name)
    sidecar = corpus / "quant_sidecars" / f"{name}_hf_quant_config.json"
    assert (found is not None) == ("quantization_config" in text or sidecar.exists())
    if found is not None:
        assert (found.unread, found.conflicts, found.online) == ((), (), ())
        assert found.rules or found.layers
        named = [rule.format for rule in found.rules] + list(found.layers.values())
        assert None not in named


@pytest.mark.parametrize("name", corpus_place.names("quant_sidecars", "_hf_quant_config.json"))
def test_every_sidecar_suffices_alone(corpus, name):
    path = corpus / "quant_sidecars" / f"{name}_hf_quant_config.json"
    found = quant_config({}, json.loads(path.read_text()))
    assert found is not None
    assert (found.method, found.source, found.unread) == ("modelopt", "hf_quant_config.json", ())
    expected = "fp8_tensor" if "FP8" in name and "NVFP4" not in name else "nvfp4"
    named = {rule.format for rule in found.rules} | set(found.layers.values())
    assert expected in named


PROMISES = [
    ("deepseek-ai__DeepSeek-V3.2", "model.layers.9.mlp.experts.3.up_proj.weight", "fp8_b128_ue8m0"),
    ("deepseek-ai__DeepSeek-V4-Flash-0731", "layers.9.ffn.experts.3.w1.weight", "mxfp4"),
    ("deepseek-ai__DeepSeek-V4-Flash-0731", "layers.9.ffn.shared_experts.w1.weight",
     "fp8_b128_ue8m0"),
    ("deepseek-ai__DeepSeek-V4.1-Flash", "layers.9.ffn.experts.3.w1.weight", "mxfp4"),
    ("deepseek-ai__DeepSeek-V4.1-Flash", "layers.9.attn.wq_b.weight", "fp8_b32_ue8m0"),
    ("sgl-project__DeepSeek-V4-Flash-FP8", "layers.9.ffn.experts.3.w1.weight", "fp8_b128_ue8m0"),
    ("nvidia__DeepSeek-V4-Flash-NVFP4", "layers.9.ffn.experts.3.w1.weight", "nvfp4"),
    ("nvidia__DeepSeek-V4-Flash-NVFP4", "layers.9.attn.wq_b.weight", "fp8_b128_ue8m0"),
    ("nvidia__DeepSeek-V4-Flash-NVFP4", "mtp.0.ffn.experts.3.w1.weight", "mxfp4"),
    ("moonshotai__Kimi-K3", "language_model.model.layers.9.block_sparse_moe.experts.3.w1.weight",
     "mxfp4"),
    ("moonshotai__Kimi-K3", "language_model.model.layers.9.self_attn.q_proj.weight", None),
    ("moonshotai__Kimi-K3", "language_model.lm_head.weight", None),
    ("nvidia__GLM-5-NVFP4", "model.layers.0.self_attn.indexer.wk.weight", None),
    ("nvidia__GLM-5-NVFP4", "model.layers.9.mlp.experts.3.up_proj.weight", "nvfp4"),
    ("nvidia__GLM-5.2-NVFP4", "model.layers.78.mlp.experts.3.up_proj.weight", None),
    ("nvidia__GLM-5.2-NVFP4", "model.layers.1.mlp.up_proj.weight", None),
    ("nvidia__GLM-5.2-NVFP4", "model.layers.11.mlp.experts.3.up_proj.weight", "nvfp4"),
    ("nvidia__MiniMax-M3-NVFP4", "language_model.model.layers.0.mlp.down_proj.weight", "mxfp8"),
    ("nvidia__MiniMax-M3-NVFP4", "model.language_model.layers.0.mlp.down_proj.weight", "mxfp8"),
    ("nvidia__Qwen3.6-27B-NVFP4", "model.language_model.layers.0.mlp.up_proj.weight", "nvfp4"),
    ("nvidia__Qwen3.6-27B-NVFP4", "model.language_model.layers.0.linear_attn.out_proj.weight",
     "fp8_tensor"),
    ("nvidia__Qwen3.6-27B-NVFP4", "mtp.layers.0.mlp.up_proj.weight", None),
    ("nvidia__Qwen3.5-397B-A17B-NVFP4",
     "model.language_model.layers.7.mlp.shared_expert.up_proj.weight", None),
    ("openai__gpt-oss-20b", "model.layers.3.self_attn.q_proj.weight", None),
    ("openai__gpt-oss-20b", "model.layers.3.mlp.router.weight", None),
    ("poolside__Laguna-XS.2-FP8", "model.layers.3.mlp.experts.0.up_proj.weight", "fp8_b128"),
    ("poolside__Laguna-XS.2-FP8", "model.layers.3.self_attn.q_proj.weight", None),
    ("TheBloke__Llama-2-7B-AWQ", "model.layers.3.self_attn.q_proj.weight", "awq4_g128"),
    ("TheBloke__Llama-2-7B-AWQ", "lm_head.weight", None),
    ("TheBloke__Llama-2-7B-AWQ", "model.embed_tokens.weight", None),
    ("RedHatAI__DeepSeek-V4-Flash-NVFP4-FP8", "layers.3.attn.wq_b.weight", "fp8_b128"),
    ("RedHatAI__DeepSeek-V4-Flash-NVFP4-FP8", "layers.3.ffn.experts.0.up_proj.weight", "nvfp4_ct"),
    ("mistralai__Devstral-2-123B-Instruct-2512", "model.language_model.layers.3.mlp.up_proj.weight",
     "fp8_tensor"),
    ("mistralai__Devstral-2-123B-Instruct-2512", "vision_tower.layers.3.fc1.weight", None),
    ("zai-org__GLM-5.3-Flash", "model.layers.0.self_attn.q_proj.weight", None),
    ("zai-org__GLM-5.3-Flash", "model.layers.10.self_attn.q_proj.weight", "fp8_b128"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "weight", "promise"),
    PROMISES,
    ids=[f"{row[0].partition('__')[2]}-{row[1]}" for row in PROMISES],
)
def test_what_real_blocks_promise(corpus, name, weight, promise):
    assert real(corpus, name).expected_format(weight, MATRIX) == promise


def test_fused_experts_and_vectors(corpus):
    oss = real(corpus, "openai__gpt-oss-20b")
    stack = "model.layers.3.mlp.experts.gate_up_proj"
    assert oss.expected_format(stack, (32, 5760, 2880)) == "mxfp4"
    assert oss.expected_format(f"{stack}_bias", (32, 5760)) is None
    assert oss.expected_format("model.norm.weight", (2880,)) is None


@pytest.mark.parametrize(
    ("name", "kv", "activations"),
    [
        ("nvidia__GLM-5.1-NVFP4", KV8, "static"),
        ("nvidia__DeepSeek-V3.2-NVFP4", KV8, ""),
        ("nvidia__Qwen3.6-35B-A3B-NVFP4", KV8, "static"),
        ("nvidia__DeepSeek-V4-Flash-NVFP4", None, "dynamic"),
        ("Qwen__Qwen3-32B-FP8-Static-PerTensor", KV8, "static"),
        ("poolside__Laguna-XS.2-FP8", KV8, "dynamic"),
        ("moonshotai__Kimi-K3", None, ""),
    ],
)
def test_cache_schemes_and_activations(corpus, name, kv, activations):
    found = real(corpus, name)
    assert (found.kv, found.activations) == (kv, activations)


BLOCKS = [
    (
        "gptq",
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True},
        "gptq4_g128",
    ),
    ("gptq-rows", {"quant_method": "gptq", "bits": 8, "group_size": -1}, "gptq8_channel"),
    ("bnb", {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "bnb4"),
    (
        "bnb-nested",
        {
            "quant_method": "bitsandbytes",
            "_load_in_4bit": True,
            "load_in_4bit": True,
            "bnb_4bit_use_double_quant": True,
        },
        "bnb4_nested",
    ),
    ("bnb-8", {"quant_method": "bitsandbytes", "load_in_8bit": True}, "bnb8"),
    ("mxfp8", {"quant_method": "mxfp8"}, "mxfp8"),
    ("fbgemm", {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, "fp8_channel"),
]


@pytest.mark.parametrize(("block", "promise"), [b[1:] for b in BLOCKS], ids=[b[0] for b in BLOCKS])
def test_methods_the_corpus_lacks(block, promise):
    found = quant_config({"quantization_config": block})
    assert found.unread == ()
    assert found.expected_format("model.layers.0.mlp.up_proj.weight", MATRIX) == promise


def scheme(**weights):
    """A compressed-tensors block with one group for all linear layers."""
    packing = weights.pop("format", None)
    group = {"targets": ["Linear"], "weights": weights}
    return {"quantization_config": {"quant_method": "compressed-tensors", "format": packing,
                                    "config_groups": {"group_0": group}}}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "promise"),
    [
        (scheme(num_bits=4, type="int", strategy="group", group_size=32, format="pack-quantized"),
         "int4_g32"),
        (scheme(num_bits=4, type="int", strategy="channel", format="pack-quantized"),
         "int4_channel"),
        (scheme(num_bits=8, type="int", strategy="channel", format="int-quantized"),
         "int8_channel"),
        (scheme(num_bits=8, type="float", strategy="channel", format="float-quantized"),
         "fp8_channel"),
        (scheme(num_bits=8, type="float", strategy="group", group_size=32), "mxfp8"),
        (scheme(num_bits=4, type="float", strategy="tensor_group", group_size=16,
                format="nvfp4-pack-quantized"), "nvfp4_ct"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_compressed_tensors_schemes(config, promise):
    found = quant_config(config)
    assert (found.unread, found.rules[0].format) == ((), promise)
    older = {"compression_config": config["quantization_config"]}
    assert quant_config(older).rules == found.rules
    inner = quant_config({"text_config": config})
    assert inner.source == "text_config.quantization_config"
    assert inner.rules == found.rules


def test_nothing_is_ignored_in_silence():
    block = {"quant_method": "fp8", "weight_block_size": [128, 128], "rotation": "hadamard"}
    assert quant_config({"quantization_config": block}).unread == ("rotation",)
    strange = scheme(num_bits=6, type="float", strategy="group", group_size=32, new_key=1)
    assert quant_config(strange).unread == (
        "config_groups.group_0.weights.num_bits=6 float group",
        "config_groups.group_0.weights.new_key",
    )
    unknown = quant_config({"quantization_config": {"quant_method": "zip9", "level": 3}})
    assert (unknown.method, unknown.unread) == ("zip9", ("quant_method=zip9", "level"))
    assert unknown.expected_format("a.weight", MATRIX) is None
    side = {"quantization": {"quant_algo": "NVFP9", "group_size": 16}, "extra": 1}
    assert quant_config({}, side).unread == ("quantization.quant_algo=NVFP9", "extra")
    rotated = scheme(num_bits=8, type="float", strategy="tensor")
    rotated["quantization_config"]["transform_config"] = {
        "config_groups": {
            "R4": {
                "type": "hadamard",
                "head_dim": 128,
                "apply": [{"location": "input", "targets": []}],
            }
        }
    }
    assert quant_config(rotated).online == ("transform R4: hadamard of 128 at input; "
                                            "at run time: input",)  # fmt: skip


def damaged(value, draw):
    """A JSON value with one place replaced by something of another type."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        return value | {key: damaged(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.7:
        place = draw.randrange(len(value))
        return [*value[:place], damaged(value[place], draw), *value[place + 1 :]]
    return draw.choice([None, 0, -1, 1.5, True, "", "odd", [], [1], ["*"], {}, {"a": [{}]}])


def test_damage_gives_an_error_for_users_or_a_parse(corpus, seed):
    draw = random.Random(seed)
    paths = sorted((corpus / "configs").glob("*.json"))
    blocks = [json.loads(path.read_text()).get("quantization_config") for path in paths]
    blocks = [block for block in blocks if block and len(json.dumps(block)) < 20_000]
    assert len(blocks) > 20
    parsed = 0
    for turn in range(600):
        config = {"quantization_config": damaged(draw.choice(blocks), draw)}
        try:
            found = quant_config(config)
        except Day0Error:
            continue
        parsed += 1
        if found is not None:
            promise = found.expected_format("model.layers.0.mlp.experts.0.up_proj.weight", MATRIX)
            assert promise is None or formats.is_known(promise), (seed, turn, config)
    assert parsed > 100, seed


def test_no_quantisation_at_all():
    assert quant_config({}) is None
    assert quant_config({"quantization_config": None, "text_config": {}}, {}) is None


@pytest.mark.parametrize(
    ("block", "named"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
        ({"quant_method": "fp8", "modules_to_not_convert": {"a": 1}}, "modules_to_not_convert"),
        ({"quant_method": "mxfp4", "ignore": ["re:("]}, "re:\\("),
        ({"quant_method": "compressed-tensors", "config_groups": [1]}, "config_groups"),
    ],
)
def test_wrong_types_are_named(block, named):
    with pytest.raises(Day0Error, match=named) as caught:
        quant_config({"quantization_config": block})
    assert caught.value.hint


def test_config_and_sidecar_that_disagree():
    config = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4",
                                      "ignore": ["lm_head", "model.layers.0*"]}}  # fmt: skip
    side = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8",
                             "exclude_modules": ["lm_head"]}}  # fmt: skip
    found = quant_config(config, side)
    assert len(found.conflicts) == 2
    assert "model.layers.0*" in found.conflicts[0]
    assert "nvfp4" in found.conflicts[1]
    assert "fp8_tensor" in found.conflicts[1]
    assert found.kv == KV8
    assert found.expected_format("model.layers.5.mlp.up_proj.weight", MATRIX) == "nvfp4"


MATCHES = [
    (["lm_head"], "language_model.lm_head", True),
    (["model.layers.1"], "model.layers.1.mlp.up_proj", True),
    (["model.layers.1"], "model.layers.11.mlp.up_proj", False),
    (["model.layers.0.mlp.gate"], "model.language_model.layers.0.mlp.gate", True),
    (["model.layers.0.mlp.gate"], "mtp.layers.0.mlp.gate", False),
    (["model.layers.*.self_attn"], "model.layers.3.self_attn.q_proj", True),
    (["model.layers.*.self_attn"], "model.layers.3.mlp.self_attn_proj", False),
    (["*.attn.*"], "layers.3.attn.wq_a", True),
    (["*.attn.*"], "layers.3.attn_norm", False),
    (["mtp.*"], "mtp.0.attn.wq_a", True),
    (["mtp.*"], "model.layers.0.attn", False),
    (["model.visual*"], "model.visual.blocks.0.attn.qkv", True),
    (["vision_tower"], "vision_tower.encoder.blocks.0.wo", True),
    (["re:.*mlp\\.(gate|up)_proj.*"], "model.layers.0.mlp.up_proj", True),
    (["re:.*mlp\\.(gate|up)_proj.*"], "model.layers.0.mlp.down_proj", False),
    (["head"], "layers.61.shared_head", False),
    ([], "lm_head", False),
]


@pytest.mark.parametrize(("entries", "module", "expected"), MATCHES)
def test_patterns(entries, module, expected):
    assert parse(entries).match(module) is expected


def test_52_a_list_entry_names_whole_components(corpus):
    block = {"quant_method": "bitsandbytes", "load_in_4bit": True,
             "modules_to_not_convert": ["gate"]}  # fmt: skip
    found = quant_config({"quantization_config": block})
    assert found.excluded("model.layers.0.mlp.gate.weight")
    assert not found.excluded("model.layers.0.mlp.experts.gate_up_proj")
    assert not found.excluded("model.layers.0.mlp.gate_proj.weight")
    real_list = real(corpus, "MiniMaxAI__MiniMax-M2.5")
    assert real_list.excluded("model.layers.0.block_sparse_moe.gate.weight")
    assert not real_list.excluded("model.layers.0.block_sparse_moe.experts.0.gate_proj.weight")


def test_105_expert_dtype_is_read_from_both_places(corpus):
    launch = real(corpus, "deepseek-ai__DeepSeek-V4-Flash@launch")
    later = real(corpus, "deepseek-ai__DeepSeek-V4-Flash-0731")
    expert = "layers.5.ffn.experts.0.w2.weight"
    assert launch.expected_format(expert, MATRIX) == "fp8_b128_ue8m0"
    assert later.expected_format(expert, MATRIX) == "mxfp4"


def test_111_the_sidecar_alone_says_nvfp4(corpus):
    side = {"quantization": {"quant_algo": "NVFP4", "group_size": 16}}
    found = quant_config({"model_type": "anything"}, side)
    assert found.expected_format("model.layers.0.mlp.up_proj.weight", MATRIX) == "nvfp4"
    assert real(corpus, "nvidia__GLM-5-NVFP4").source == "hf_quant_config.json"


def test_113_wrapper_names_in_an_ignore_list():
    ignored = "model.vision_tower.encoder.layers.0.self_attn.q_proj.linear"
    config = scheme(num_bits=4, type="int", strategy="group", group_size=32,
                    format="pack-quantized")  # fmt: skip
    config["quantization_config"]["ignore"] = [ignored, "re:.*k_proj\\.linear$"]
    found = quant_config(config)
    stem = "model.vision_tower.encoder.layers.0.self_attn"
    assert found.excluded(f"{stem}.q_proj.weight")
    assert found.excluded(f"{stem}.q_proj.linear.weight")
    assert found.excluded(f"{stem}.k_proj.weight")
    assert not found.excluded(f"{stem}.v_proj.weight")


def test_114_a_fused_module_is_excluded_by_its_parts():
    stem = "model.layers.0.self_attn"
    parts = (f"{stem}.q_a_proj.weight", f"{stem}.kv_a_proj_with_mqa.weight")
    block = {"quant_method": "fp8", "weight_block_size": [128, 128],
             "ignored_layers": [f"{stem}.q_a_proj", f"{stem}.kv_a_proj_with_mqa"]}  # fmt: skip
    assert quant_config({"quantization_config": block}).split(parts) == (parts, ())
    block["ignored_layers"].pop()
    assert quant_config({"quantization_config": block}).split(parts) == (parts[:1], parts[1:])
