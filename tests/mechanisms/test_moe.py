"""Mixture of experts: routers, stored forms of experts, shared experts, counts."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from day0.ir.weight import Permute, Pick, Stack
from day0.mechanisms.moe import NUM_EXPERTS, TOP_K
from tests.mechanisms import readings
from tests.mechanisms.small import llama, made_up
from tests.tiny import TinyCheckpoint, rename

Tiny = Callable[..., TinyCheckpoint]
# type -> (score, groups limit the choice, a bias selects, gated shared expert)
ROUTERS = {
    "mixtral": ("softmax", False, False, False),
    "qwen3_moe": ("softmax", False, False, False),
    "qwen3_next": ("softmax", False, False, True),
    "qwen3_5_moe": ("softmax", False, False, True),
    "lara_mini": ("softmax", False, False, False),
    "minimax": ("softmax", False, False, False),
    "gpt_oss": ("topk_softmax", False, False, False),
    "glm4_moe": ("sigmoid", True, True, False),
}


def mixtral(**words: Any) -> dict[str, Any]:
    return llama(
        model_type="mixtral",
        num_local_experts=4,
        num_experts_per_tok=2,
        tie_word_embeddings=False,
        **words,
    )


def ffn_of(got: readings.Read, layer: int) -> Any:
    return got.reading.spec.layers[layer].sublayers[1].branches[0].spec


@pytest.mark.hf
@pytest.mark.parametrize("headers", [True, False], ids=["headers", "config"])
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
@pytest.mark.parametrize("type_name", ROUTERS)
def test_router(tiny: Tiny, tmp_path: Path, type_name: str, known: bool, headers: bool) -> None:
    checkpoint = tiny(type_name)
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder, headers=headers)
    score, groups, bias, gated = ROUTERS[type_name]
    last = len(config.get("layer_types") or range(config["num_hidden_layers"])) - 1
    spec = ffn_of(got, last)
    assert (spec.score, spec.num_groups > 1, spec.bias) == (score, groups, bias)
    assert spec.shared_gate == gated
    assert spec.renormalise == config.get("norm_topk_prob", True)
    assert spec.top_k == config["num_experts_per_tok"]
    assert spec.scale == config.get("routed_scaling_factor", 1.0)
    assert spec.renormalise_eps == (1e-20 if score == "sigmoid" else 0.0)
    route = got.op(f"layers.{last}.ffn.route")
    assert ("bias" in dict(route.weights)) == bias
    assert route.attr("left_out") == "lowest"


@pytest.mark.hf
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
def test_columns_of_gpt_oss(tiny: Tiny, tmp_path: Path, known: bool) -> None:
    """[E, in, out] with gate and up columns in turn, biases too."""
    checkpoint = tiny("gpt_oss")
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder)
    spec = ffn_of(got, 0)
    assert (spec.layout, spec.interleaved, spec.router_bias, spec.expert_bias) == (
        "transposed", True, True, True,
    )  # fmt: skip
    for start, name in enumerate(("gate", "up")):
        source = got.model.weights[f"layers.0.ffn.{name}"].source
        assert isinstance(source, Permute)
        assert isinstance(source.of, Pick)
        assert (source.of.dim, source.of.period, source.of.start) == (2, 2, start)
        bias = got.model.weights[f"layers.0.ffn.{name}_bias"].source
        assert isinstance(bias, Pick)
        assert (bias.dim, bias.period, bias.start) == (1, 2, start)
    experts = got.op("layers.0.ffn.experts")
    assert experts.attr("function") == "swigluoai"
    assert (experts.attr("alpha"), experts.attr("limit")) == (
        config["swiglu_alpha"], config["swiglu_limit"],
    )  # fmt: skip
    assert "bias" in dict(got.op("layers.0.ffn.router").weights)


def test_blocks_of_gpt_oss(corpus: Path) -> None:
    """MXFP4 blocks stand [E, out, in]: rows alternate."""
    from tests import listing

    name = "openai__gpt-oss-20b"
    got = readings.from_corpus(corpus, name, listing.headers(corpus / f"headers/{name}.tsv"))
    gate = got.model.weights["layers.0.ffn.gate"]
    assert gate.spec.format == "mxfp4"
    assert gate.spec.dims == (32, 2880, 2880)
    assert isinstance(gate.source, Pick)
    assert (gate.source.dim, gate.source.period, gate.source.stop) == (1, 2, 1)


@pytest.mark.hf
def test_fused_halves(tiny: Tiny) -> None:
    got = readings.from_folder(tiny("lara_mini").folder)
    spec = ffn_of(got, 0)
    assert (spec.layout, spec.interleaved) == ("fused", False)
    up = got.model.weights["layers.0.ffn.up"].source
    assert isinstance(up, Pick)
    assert (up.dim, up.period, up.start) == (1, 2 * spec.intermediate, spec.intermediate)


def test_square_gate_up_is_told_by_down() -> None:
    """Where 2 I = H, gate_up_proj is square; down_proj is not."""
    config = mixtral(moe_intermediate_size=6)
    shapes = {
        leaf.name: leaf.dims
        for leaf, count, _ in readings.from_parts(config, None)._leaves()
        if not count
    }
    at = "model.layers.0.block_sparse_moe.experts."
    for down, layout in (((4, 12, 6), "fused"), ((4, 6, 12), "transposed")):
        shapes |= {f"{at}gate_up_proj": (4, 12, 12), f"{at}down_proj": down}
        got = readings.from_parts(config, made_up(shapes))
        assert ffn_of(got, 0).layout == layout
        assert got.unexplained() == ([], [], [])


@pytest.mark.parametrize(
    ("renormalise", "factor"), list(itertools.product([True, False], [1.0, 2.5]))
)
def test_cases_19_20_21_one_factor_on_every_path(renormalise: bool, factor: float) -> None:
    """The factor stands in the router's op once, whatever becomes of the renormalisation."""
    config = mixtral(norm_topk_prob=renormalise, routed_scaling_factor=factor)
    got = readings.from_parts(config, None)
    route = got.op("layers.0.ffn.route")
    assert (route.attr("renormalise"), route.attr("scale")) == (renormalise, factor)
    others = [op for op in got.main.ops if op.id.startswith("layers.0.ffn") and op is not route]
    assert not [op for op in others for key, value in op.attrs if key == "scale" and value != 1.0]


@pytest.mark.parametrize("key", NUM_EXPERTS)
def test_case_25_experts_in_the_inner_config(key: str) -> None:
    inner = llama(num_experts_per_tok=2, moe_intermediate_size=8, **{key: 16})
    got = readings.from_parts({"model_type": "some_vlm", "text_config": inner}, None)
    assert ffn_of(got, 0).num_experts == 16


@pytest.mark.parametrize("key", TOP_K)
def test_case_40_spellings_of_top_k(key: str) -> None:
    config = llama(num_experts=16, moe_intermediate_size=8, num_shared_experts=2, **{key: 4})
    spec = ffn_of(readings.from_parts(config, None), 0)
    assert (spec.top_k, spec.shared) == (4, 16)


def test_case_40_an_unknown_spelling_is_named() -> None:
    config = llama(num_experts=16, moe_intermediate_size=8, experts_for_each_token=4)
    findings = readings.from_parts(config, None).reading.findings
    assert [finding.code for finding in findings] == ["missing_word"]
    assert "moe.top_k" in findings[0].message
    assert "'num_experts_per_tok'" in findings[0].message


def test_case_41_two_shared_experts_in_one() -> None:
    config = llama(num_experts=896, num_experts_per_token=16, moe_intermediate_size=8,
                   num_shared_experts=2)  # fmt: skip
    got = readings.from_parts(config, None)
    assert ffn_of(got, 0).num_experts == 896
    shared = got.model.weights["layers.0.ffn.shared.up_proj"]
    assert shared.spec.dims == (16, 12)
    assert isinstance(got.model.weights["layers.0.ffn.up"].source, Stack)


def test_cases_72_76_mixtral_8x7b() -> None:
    """46.7 billion in all, 12.9 billion of them active; the head is not tied."""
    from day0.analysis.params import count

    config = mixtral(vocab_size=32000)
    config |= {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8,
    }  # fmt: skip
    got = readings.from_parts(config, None)
    assert got.params() == 46_702_792_704
    counted = count(got.model)
    assert counted.total == 46_702_792_704
    # with both tables of the vocabulary; `active` leaves the input rows out
    assert counted.active + 32000 * 4096 == 12_879_925_248


def test_case_76_gpt_oss_20b(corpus: Path) -> None:
    from day0.analysis.params import count

    counted = count(readings.from_corpus(corpus, "openai__gpt-oss-20b").model)
    assert counted.total == 20_914_757_184
    assert round(counted.active / 1e9, 1) == 3.6


def test_layers_without_experts() -> None:
    config = llama(model_type="qwen3_moe", num_experts=0, decoder_sparse_step=1,
                   moe_intermediate_size=8)  # fmt: skip
    got = readings.from_parts(config, None)
    assert got.reading.spec.layers[0].sublayers[1].branches[0].stem == "glu"
