"""Without headers the quantisation block says how weights are stored: bytes near the real ones."""

import json
from pathlib import Path

import pytest

from day0.models.promised import promised, spellings
from day0.models.quant_config import quant_config
from tests.field_cases.asking import analysis, corpus_config, small

# Bytes of the header listing (their "# data_bytes" line), and the share that lists do not tell:
# fp32 islands, weights the lists forget, a vision tower.
STORED = {
    "TheBloke__Llama-2-7B-AWQ": (3_889_307_648, 0.0),
    "openai__gpt-oss-20b": (13_761_264_768, 0.001),
    "deepseek-ai__DeepSeek-V3.2": (689_471_107_200, 0.004),
    "moonshotai__Kimi-K3": (1_560_860_324_864, 0.006),
}


@pytest.mark.parametrize("name", STORED)
def test_bytes_of_a_config_alone(corpus: Path, name: str) -> None:
    stored, share = STORED[name]
    found = analysis(corpus_config(corpus, name))
    assert found.bytes.checkpoint == pytest.approx(stored, rel=share, abs=0)
    assert found.proof.status == "no-headers"


def test_a_sidecar_counts(corpus: Path) -> None:
    name = "nvidia__GLM-5-NVFP4"
    path = corpus / "quant_sidecars" / f"{name}_hf_quant_config.json"
    config = corpus_config(corpus, name)
    found = analysis(config, sidecar=json.loads(path.read_text(encoding="utf-8")))
    assert set(found.bytes.by_format) == {"nvfp4", "bf16"}
    assert found.params == analysis(config).params
    assert found.bytes.checkpoint < 0.35 * analysis(config).bytes.checkpoint


def test_lists_in_other_words_than_the_plain_ones() -> None:
    """A list entry keeps a weight whatever it is called; a rule takes it whatever it is called."""
    entries = ["model.layers.0.mlp.gate", "model.layers.1.ffn.experts"]
    block = {"quant_method": "fp8", "weight_block_size": [128, 128], "ignored_layers": entries}
    hint = quant_config({"quantization_config": block})
    at = "model.layers.{}.block_sparse_moe."
    dims = (256, 256)
    assert promised(f"{at.format(0)}gate.weight", dims, hint).format == "bf16"
    expert = "experts.{e}.gate_proj.weight"
    assert promised(at.format(0) + expert, dims, hint).format == "fp8_b128"
    assert promised(at.format(1) + expert, dims, hint, dtype="fp16").format == "fp16"
    assert promised("model.norm.weight", (256,), hint).format == "bf16"
    assert promised("model.x.weight", dims, None).format == "bf16"


def test_spellings_begin_with_the_name_and_differ() -> None:
    found = list(spellings("model.layers.3.mlp.experts.0.up_proj.weight"))
    assert found[0] == "model.layers.3.mlp.experts.0.up_proj.weight"
    assert "model.layers.3.ffn.experts.0.w3.weight" in found
    assert len(set(found)) == len(found) == 8
    assert list(spellings("model.embed_tokens.weight")) == ["model.embed_tokens.weight"]


def test_what_the_block_holds_is_read_or_reported() -> None:
    block = {"quant_method": "fp8", "weight_block_size": [128, 128], "rotation": "hadamard"}
    found = analysis(small(quantization_config=block, expert_dtype="fp8"))
    assert found.unread_keys == ()
    (finding,) = (item for item in found.findings if item.code == "quant.unread")
    assert finding.evidence == ("rotation",)
    assert [item.code for item in found.findings] == ["quant.unread"]
