"""Field cases of the section on quantised checkpoints that no test of a single room covers."""

from typing import Any

import pytest

from tests.field_cases.asking import Tensors, analysis, small, wanted, warnings


def glm(**words: Any) -> dict[str, Any]:
    return small(
        model_type="glm4_moe", n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        n_shared_experts=1, n_group=1, topk_group=1, first_k_dense_replace=1,
        num_nextn_predict_layers=1, tie_word_embeddings=False, **words,
    )  # fmt: skip


@pytest.fixture
def with_draft() -> Tensors:
    """A GLM-4.x with a draft layer that has a head of its own."""
    tensors = wanted(glm())
    at = "model.layers.2."
    tensors[f"{at}embed_tokens.weight"] = ("BF16", (30, 24))
    tensors[f"{at}shared_head.head.weight"] = ("BF16", (30, 24))
    return tensors


HEAD = "model.layers.2.shared_head.head.weight"
BLOCK = {"quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized",
         "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
             "num_bits": 8, "type": "float", "strategy": "channel"}}}}}  # fmt: skip


def test_case_103_a_quantised_draft_head_needs_its_scale(with_draft: Tensors) -> None:
    """The scale is read with the head; without it the codes are refused, not used raw."""
    plain = analysis(glm(), with_draft)
    assert (plain.proof.status, warnings(plain)) == ("proved", [])
    tensors = {**with_draft, HEAD: ("F8_E4M3", (30, 24)), f"{HEAD}_scale": ("F32", (30, 1))}
    sound = analysis(glm(**BLOCK), tensors)
    assert (sound.proof.status, warnings(sound)) == ("proved", [])
    head = sound.model.weights["mtp.0.head"]
    assert head.spec.format == "fp8_channel"
    assert sound.params == plain.params
    del tensors[f"{HEAD}_scale"]
    broken = analysis(glm(**BLOCK), tensors)
    assert warnings(broken) == ["quant.scale-missing"]
    (finding,) = (item for item in broken.findings if item.code == "quant.scale-missing")
    assert finding.severity == "error"
    assert HEAD in " ".join(finding.evidence)
    assert broken.proof.status == "incomplete"
