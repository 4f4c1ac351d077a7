"""Multi-head latent attention: geometry, scale, gates, sharing, and the facts no shape fixes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from day0.checkpoint.headers import TensorHeader
from day0.ir.weight import leaves
from tests.mechanisms import readings
from tests.tiny import TinyCheckpoint, rename

Tiny = Callable[..., TinyCheckpoint]
TYPES = ("kimi_linear", "bailing_hybrid", "deepseek_v2", "deepseek_v3", "deepseek_v32",
         "glm_moe_dsa", "axk2", "dots3_note", "mistral_large4")  # fmt: skip
GATES = {"bailing_hybrid": "head", "axk2": "fused", "dots3_note": "head"}


def config_from(corpus: Path, name: str) -> dict[str, Any]:
    return json.loads((corpus / "configs" / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.hf
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
@pytest.mark.parametrize("type_name", TYPES)
def test_every_tensor_and_key_is_explained(
    tiny: Tiny, tmp_path: Path, type_name: str, known: bool
) -> None:
    checkpoint = tiny(type_name)
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    got = readings.from_folder(folder)
    assert got.unexplained() == ([], [], [])
    assert got.unread() == ()
    assert got.params() == checkpoint.num_params + checkpoint.num_buffer_elements
    kinds = ["kda" if kind == "kda" else "mla" for kind, _ in checkpoint.layer_kinds]
    assert got.mixers() == kinds
    assert not [f for f in got.reading.findings if f.severity != "info"]


@pytest.mark.hf
@pytest.mark.parametrize("type_name", TYPES)
def test_config_alone_gives_the_same_parameters(tiny: Tiny, type_name: str) -> None:
    checkpoint = tiny(type_name)
    alone = readings.from_folder(checkpoint.folder, headers=False)
    head = 0 if type_name != "mistral_large4" else alone.model.weights["head"].spec.width
    assert alone.params() - head == checkpoint.num_params + checkpoint.num_buffer_elements


@pytest.mark.hf
@pytest.mark.parametrize("type_name", TYPES)
def test_spec_follows_the_config(tiny: Tiny, type_name: str) -> None:
    checkpoint = tiny(type_name)
    config = readings.config_of(checkpoint.folder)
    got = readings.from_folder(checkpoint.folder)
    index = got.mixers().index("mla")
    spec = got.mixer(index)
    assert spec.kv_rank == config["kv_lora_rank"]
    assert spec.q_rank == (config.get("q_lora_rank") or 0)
    assert spec.value_dim == config["v_head_dim"]
    assert spec.nope_dim + spec.rope_dim == config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
    assert spec.out_gate == GATES.get(type_name, "none")
    own = type_name in ("dots3_note", "mistral_large4")
    assert spec.latent_eps == (config["rms_norm_eps"] if own else 1e-6)
    assert got.facts["mla.latent_norm_eps"].how == "known"
    if type_name == "kimi_linear":
        assert spec.rope is None
        assert got.facts["mla.no_rope"].how == "known"
    else:
        assert spec.rope.pairing == "interleaved"
        assert spec.rope.place == "last"
        assert got.held(index, "kv", 40) == 40 * (spec.kv_rank + spec.rope_dim)


@pytest.mark.hf
@pytest.mark.parametrize("type_name", ["deepseek_v2", "deepseek_v32", "glm_moe_dsa", "dots3_note"])
def test_rope_pairing_of_an_unknown_type_is_a_decisive_guess(
    tiny: Tiny, tmp_path: Path, type_name: str
) -> None:
    rename(tiny(type_name), tmp_path / "renamed")
    facts = readings.from_folder(tmp_path / "renamed").facts
    assert (facts["mla.rope_pairing"].how, facts["mla.rope_pairing"].decisive) == ("assumed", True)


@pytest.mark.hf
@pytest.mark.parametrize("type_name", ["kimi_linear", "bailing_hybrid", "axk2", "mistral_large4"])
def test_words_settle_what_the_type_does_not(tiny: Tiny, tmp_path: Path, type_name: str) -> None:
    rename(tiny(type_name), tmp_path / "renamed")
    facts = readings.from_folder(tmp_path / "renamed").facts
    guesses = [fact.path for fact in facts.values() if fact.how == "assumed" and fact.decisive]
    assert guesses == []


@pytest.mark.hf
def test_class_eps_equal_to_the_config_needs_no_guess(tiny: Tiny) -> None:
    config = readings.config_of(tiny("deepseek_v3").folder)
    config |= {"model_type": "of_tomorrow", "rms_norm_eps": 1e-6}
    fact = readings.from_parts(config, None).facts["mla.latent_norm_eps"]
    assert (fact.value, fact.how, fact.decisive) == (1e-6, "default", False)


@pytest.mark.parametrize(
    ("name", "factor"),
    [("deepseek-ai__DeepSeek-V2-Lite", 1.5896), ("deepseek-ai__DeepSeek-V3", 1.8739)],
)
def test_case_16_both_yarn_corrections(corpus: Path, name: str, factor: float) -> None:
    got = readings.from_corpus(corpus, name)
    op = got.ops("mla")[0]
    assert op.attr("scale") * 192**0.5 == pytest.approx(factor, abs=5e-5)
    assert got.facts["mla.scale"].value == op.attr("scale")
    (rope,) = {op.attr("scaling_args") for op in got.ops("rope")}
    assert dict(rope)["mscale"] == dict(rope)["mscale_all_dim"]


def test_case_3_latent_cache_of_glm_5_2(corpus: Path) -> None:
    got = readings.from_corpus(corpus, "zai-org__GLM-5.2")
    assert 2 * got.per_token("kv") == 89_856
    assert 2 * got.per_token("index") == 21 * 128 * 2


@pytest.mark.parametrize("head_dim", [192, 64, 0])
def test_case_4_head_dim_is_no_rope_width(corpus: Path, head_dim: int) -> None:
    config = config_from(corpus, "zai-org__GLM-5.2") | {"head_dim": head_dim}
    got = readings.from_parts(config, None)
    assert got.mixer(0).rope_dim == got.mixer(0).rope.dims == 64
    stored = {
        leaf.dims
        for name in ("kv_a_proj", "k_rope_proj")
        for leaf, _ in leaves(got.model.weights[f"layers.0.mixer.{name}"].source)
    }
    assert stored == {(576, 6144)}


@pytest.mark.parametrize(
    ("name", "dims"),
    [("zai-org__GLM-5", (192, 64, 256)), ("deepseek-ai__DeepSeek-V3", (128, 64, 128))],
)
def test_case_5_dims_are_attributes(corpus: Path, name: str, dims: tuple[int, ...]) -> None:
    got = readings.from_corpus(corpus, name)
    op = (got.ops("sparse_mla") or got.ops("mla"))[0]
    assert tuple(op.attr(key) for key in ("nope_dim", "rope_dim", "value_dim")) == dims


@pytest.mark.parametrize(
    ("name", "total", "per_token"),
    [
        ("deepseek-ai__DeepSeek-V2-Lite", 15_706_484_224, 31_104),
        ("moonshotai__Kimi-Linear-48B-A3B-Instruct", 49_122_681_728, 8_064),
        ("moonshotai__Kimi-K3", 2_779_484_478_208, 27_648),
        ("deepseek-ai__DeepSeek-V3.2", 685_355_329_792, 70_272),
    ],
)
def test_totals_of_real_configs(corpus: Path, name: str, total: int, per_token: int) -> None:
    """V2-Lite's q_lora_rank is an explicit null, which overrides the class default of 1536."""
    got = readings.from_corpus(corpus, name)
    assert got.params() == total
    assert 2 * got.per_token("kv") == per_token


@pytest.mark.hf
def test_fused_query_and_gate_take_all_rows(tiny: Tiny) -> None:
    got = readings.from_folder(tiny("axk2").folder)
    spec = got.mixer(0)
    heads, dqk = spec.num_heads, spec.nope_dim + spec.rope_dim
    query = got.model.weights["layers.0.mixer.q_b_proj"].spec.dims
    gate = got.model.weights["layers.0.mixer.q_b_gate"].spec.dims
    assert query == (heads * dqk, 2 * spec.q_rank)
    assert gate == (heads * spec.value_dim, 2 * spec.q_rank)
    inputs = dict(got.op("layers.0.mixer.q_latents").inputs)
    assert inputs == {"x0": "layers.0.mixer.q_a_norm", "x1": "layers.0.mixer.q_a_proj"}
    # the indexer's query comes from the normed latent alone
    source = dict(got.op("layers.0.mixer.indexer.wq_b").inputs)["x"]
    assert source == "layers.0.mixer.q_a_norm"


@pytest.mark.hf
def test_window_layers_have_a_geometry_of_their_own(tiny: Tiny) -> None:
    config = readings.config_of(tiny("dots3_note").folder)
    got = readings.from_folder(tiny("dots3_note").folder)
    for index, word in enumerate(config["layer_types"]):
        spec = got.mixer(index)
        own = config["per_layer_config"].get(str(index), {})
        sizes = {**config, **own}
        assert spec.num_heads == sizes["num_attention_heads"]
        assert (spec.q_rank, spec.kv_rank) == (sizes["q_lora_rank"], sizes["kv_lora_rank"])
        assert spec.kv_scale == pytest.approx((config["hidden_size"] / spec.kv_rank) ** 0.5)
        assert spec.q_scale == pytest.approx((config["hidden_size"] / spec.q_rank) ** 0.5)
        latent = got.caches(index)["latent"]
        assert latent.elements == spec.kv_rank + spec.rope_dim
        if word == "sliding_attention":
            assert spec.rope.theta == config["rope_parameters"][word]["rope_theta"]
            assert (latent.growth, latent.span) == ("window", config["sliding_window"])
            assert spec.indexer is None
        else:
            assert latent.growth == "per-token"
            assert spec.indexer is not None


@pytest.mark.hf
def test_hub_spellings_of_window_layers(tiny: Tiny) -> None:
    """The released file spells the windows' sizes swa_*; transformers saves per_layer_config."""
    folder = tiny("dots3_note").folder
    config = readings.config_of(folder)
    saved = readings.from_parts(config, None)
    table = config.pop("per_layer_config")
    own = next(iter(table.values()))
    sliding = {**config, **own}
    for key in ("num_attention_heads", "num_key_value_heads", "q_lora_rank", "kv_lora_rank",
                "head_dim", "qk_nope_head_dim", "v_head_dim"):  # fmt: skip
        config[f"swa_{key}"] = sliding[key]
    ropes = config.pop("rope_parameters")
    config["rope_theta"] = ropes["indexed_attention"]["rope_theta"]
    config["swa_rope_theta"] = ropes["sliding_attention"]["rope_theta"]
    config["sliding_window_size"] = config.pop("sliding_window")
    config["use_dsa"] = True
    config["layer_types"] = [
        word.replace("indexed", "full") for word in config["layer_types"]
    ]  # fmt: skip
    hub = readings.from_parts(config, None)
    assert hub.params() == saved.params()
    assert hub.unread() == ()
    assert [hub.mixer(i) for i in range(9)] == [saved.mixer(i) for i in range(9)]
    config.pop("layer_types")
    assert [hub.mixer(i) for i in range(9)] == [
        readings.from_parts(config, None).mixer(i) for i in range(9)
    ]


@pytest.mark.hf
def test_shared_latents_and_plain_layers(tiny: Tiny) -> None:
    config = readings.config_of(tiny("mistral_large4").folder)
    got = readings.from_folder(tiny("mistral_large4").folder)
    dn, dr = config["qk_nope_head_dim"], config["qk_rope_head_dim"]
    for index, source in enumerate(config["kv_source_layers"]):
        spec = got.mixer(index)
        rotated = bool(config["no_rope_layers"][index])
        assert (spec.nope_dim, spec.rope_dim) == ((dn, dr) if rotated else (dn + dr, 0))
        assert spec.kv_of == (-1 if source == index else source)
        assert ("latent" in got.caches(index)) == (source == index)
        attend = next(op for op in got.ops("sparse_mla", index))
        assert attend.caches[0].cache == f"layers.{source}.mixer.latent"
        scale = next(op for op in got.ops("position_scale", index) if ".indexer." not in op.id)
        assert scale.attr("rule") == "ssmax"
        assert dict(attend.inputs)["q"] == scale.id
    learned = [dict(op.weights).get("log_frequency") for op in got.ops("rope")]
    assert learned
    assert set(learned) == {"rope_alpha"}


@pytest.mark.hf
def test_hub_names_of_mistral_large4(tiny: Tiny) -> None:
    """The released file has no prefix, w1 to w3 everywhere, a head, a tower and a draft."""
    checkpoint = tiny("mistral_large4")
    plain = readings.from_folder(checkpoint.folder)
    assert plain.headers is not None
    headers = readings.renamed(
        plain.headers,
        {
            "embed_tokens": "tok_embeddings",
            "rotary_emb.alpha": "lerope.alpha",
            "attention.o_proj": "attention.wo",
            "gate_proj": "w1",
            "down_proj": "w2",
            "up_proj": "w3",
        },
    )
    tensors: dict[str, TensorHeader] = dict(headers.tensors)
    tensors["output.weight"] = tensors["tok_embeddings.weight"]
    config = readings.config_of(checkpoint.folder)
    got = readings.from_parts(config, type(headers)(tensors=tensors, shards=headers.shards))
    assert got.unexplained() == ([], [], [])
    assert got.reading.spec.softcap == config["final_logit_softcapping"]
    assert [got.mixer(i) for i in range(8)] == [plain.mixer(i) for i in range(8)]


def test_kimi_k3_gates_elementwise_and_never_rotates(corpus: Path) -> None:
    got = readings.from_corpus(corpus, "moonshotai__Kimi-K3")
    spec = got.mixer(3)
    assert (spec.out_gate, spec.rope, spec.rope_dim) == ("element", None, 64)
    assert got.ops("rope") == []
    gate = got.op("layers.3.mixer.out_gate")
    assert gate.attr("num_heads") == 0
    assert gate.attr("activation") == "sigmoid"
    assert got.mixers()[91:] == ["mla", "mla"]
