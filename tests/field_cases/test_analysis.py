"""Field cases of the section on analysis that no test of a single room covers."""

from pathlib import Path
from typing import Any

import pytest

from day0.ir.recipe import RECIPES
from day0.ir.weight import Pick
from tests.field_cases.asking import analysis, corpus_config, small, wanted, warnings

HYBRID = {
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 4,
    "linear_value_head_dim": 6,
    "linear_conv_kernel_dim": 4,
    "layer_types": ["linear_attention", "full_attention"],
}


def rows_of(source: Any) -> list[int]:
    """Stored row numbers that a slice of rows takes, in order."""
    assert isinstance(source, Pick)
    assert source.dim == 0
    total = source.of.dims[0]
    return [i for i in range(total) if source.start <= i % source.period < source.stop]


def test_case_007_value_heads_of_a_key_head_stand_together() -> None:
    """Published Qwen3-Next rows are grouped by key head, [q | k | v | z] each: value head v stands
    in the group of key head v // 2, and no other order is made of it."""
    config = small(model_type="qwen3_next", **HYBRID)
    at = "model.layers.0.linear_attn."
    tensors = {name: entry for name, entry in wanted(config).items() if not name.startswith(at)}
    group = 2 * 4 + 2 * 2 * 6
    shapes = {
        "in_proj_qkvz.weight": (16 * group, 24), "in_proj_ba.weight": (64, 24),
        "conv1d.weight": (320, 1, 4), "A_log": (32,), "dt_bias": (32,), "norm.weight": (6,),
        "out_proj.weight": (24, 192),
    }  # fmt: skip
    tensors |= {at + name: ("BF16", shape) for name, shape in shapes.items()}
    found = analysis(config, tensors)
    assert found.proof.status == "proved"
    weights = found.model.weights
    values = rows_of(weights["layers.0.mixer.v_proj"].source)
    keys = rows_of(weights["layers.0.mixer.k_proj"].source)
    decays = rows_of(weights["layers.0.mixer.a_proj"].source)
    for head in range(32):
        assert {row // group for row in values[6 * head : 6 * head + 6]} == {head // 2}
        assert decays[head] // 4 == head // 2
    assert [row // group for row in keys] == [head for head in range(16) for _ in range(4)]
    (op,) = (op for op in found.model.graphs["main"].ops if op.family == "gdn")
    assert (op.attr("num_key_heads"), op.attr("num_heads")) == (16, 32)


@pytest.mark.parametrize("recipe", RECIPES)
def test_case_023_router_weight_and_bias_keep_fp32(corpus: Path, recipe: str) -> None:
    """238 biases between 6.8 and 7.1 become 8 in bf16: no recipe touches them."""
    found = analysis(corpus_config(corpus, "zai-org__GLM-5.2"), quant=recipe)
    routers = [weight for weight in found.model.weights.values() if weight.role == "router"]
    names = {name.rpartition(".")[2] for name in (weight.name for weight in routers)}
    assert names == {"router", "bias"}
    assert {RECIPES[recipe].weight(weight) for weight in routers} == {"fp32"}


def test_case_028_the_list_tells_the_number_of_layers() -> None:
    """The kind, with a covered type: no count, but one entry a layer."""
    config = small(model_type="qwen3_next", **HYBRID)
    counted = analysis(config)
    del config["num_hidden_layers"]
    listed = analysis(config)
    assert [layer.sublayers[0].branches[0].stem for layer in listed.spec.layers] == ["gdn", "gqa"]
    assert listed.params == counted.params
    assert listed.model.facts["num_layers"].how == "header"


def test_case_030_headers_judge_a_trimmed_config() -> None:
    """A copy whose sliding layers lost their own head count: the tensors say so, by name."""
    config = small(sliding_window=8, layer_types=["full_attention", "sliding_attention"])
    tensors = wanted(config)
    at = "model.layers.1.self_attn."
    tensors[f"{at}q_proj.weight"] = ("BF16", (6 * 8, 24))
    tensors[f"{at}o_proj.weight"] = ("BF16", (24, 6 * 8))
    found = analysis(config, tensors)
    assert found.proof.status == "contradicted"
    assert [name.split()[0] for name in found.proof.shape] == [
        f"{at}q_proj.weight", f"{at}o_proj.weight",
    ]  # fmt: skip
    assert warnings(found) == ["shape_mismatch"]


def test_case_038_latent_experts_have_their_own_width(corpus: Path) -> None:
    """Kimi-K3: 3 x 3584 x 3072 an expert, and two projections around the experts."""
    found = analysis(corpus_config(corpus, "moonshotai__Kimi-K3"))
    assert found.params.by_role["experts"] == 92 * 896 * 33_030_144 == 2_722_740_830_208
    weights = found.model.weights
    assert weights["layers.1.ffn.gate"].spec.dims == (896, 3072, 3584)
    assert weights["layers.1.ffn.down"].spec.dims == (896, 3584, 3072)
    assert weights["layers.1.ffn.latent_down"].spec.dims == (3584, 7168)
    assert weights["layers.1.ffn.latent_up"].spec.dims == (7168, 3584)
