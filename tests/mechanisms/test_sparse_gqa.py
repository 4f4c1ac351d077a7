"""Grouped-query attention over chosen blocks, in both published kinds."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mechanisms import readings
from tests.tiny import TinyCheckpoint, cache_bytes, rename

Tiny = Callable[..., TinyCheckpoint]
both = pytest.mark.parametrize("kind", ["minimax_m3", "qwen4_exp"])


@pytest.mark.hf
@both
@pytest.mark.parametrize("headers", [True, False], ids=["headers", "config"])
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
def test_layers(tiny: Tiny, tmp_path: Path, kind: str, headers: bool, known: bool) -> None:
    checkpoint = tiny(kind)
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder, headers=headers)
    assert tuple(got.mixers()) == tuple(mixer for mixer, _ in checkpoint.layer_kinds)
    assert (got.assumed(), got.unread()) == ({}, ())
    assert got.params() == readings.from_folder(checkpoint.folder).params()
    for layer, stem in enumerate(got.mixers()):
        if stem != "sparse_gqa":
            continue
        own = got.mixer(layer).attention
        assert (own.num_heads, own.num_kv_heads, own.head_dim) == (
            config["num_attention_heads"],
            config["num_key_value_heads"],
            config["head_dim"],
        )
        assert own.scale == config["head_dim"] ** -0.5
        assert (own.qk_norm, own.zero_centered) == ("head", True)
        assert own.out_gate == ("fused" if kind == "qwen4_exp" else "none")
        share = config["rope_parameters"]["partial_rotary_factor"]
        assert own.rope is not None
        assert own.rope.pairing == "half"
        assert own.rope.dims == int(config["head_dim"] * share)


@pytest.mark.hf
@pytest.mark.parametrize(
    ("kind", "aside"),
    [
        ("minimax_m3", ()),
        ("minimax_m3_composite", ("vision_tower.", "multi_modal_projector.", "patch_merge_mlp.")),
        ("qwen4_exp", ()),
    ],
)
def test_every_tensor_is_explained(tiny: Tiny, kind: str, aside: tuple[str, ...]) -> None:
    """The composite has the released names: index_q_proj, block_sparse_moe, language_model."""
    got = readings.from_folder(tiny(kind).folder)
    assert got.unexplained(*aside) == ([], [], [])


@pytest.mark.hf
def test_lists_per_kv_head(tiny: Tiny) -> None:
    checkpoint = tiny("minimax_m3")
    config = readings.config_of(checkpoint.folder)
    got = readings.from_folder(checkpoint.folder)
    for attend in got.ops("sparse_gqa"):
        attrs = dict(attend.attrs)
        assert (attrs["block"], attrs["num_selected"], attrs["num_lists"]) == tuple(
            config[key] for key in ("index_block_size", "index_topk_blocks", "index_n_heads")
        )
        topk = f"layers.{attend.layer}.mixer.indexer.topk"
        assert dict(attend.inputs)["selected"] == topk
    assert len(got.ops("gqa")) == config["layer_types"].count("full_attention")
    for act in got.ops("glu"):
        attrs = dict(act.attrs)
        assert (attrs["function"], attrs["alpha"], attrs["limit"]) == (
            "swigluoai",
            config["swiglu_alpha"],
            config["swiglu_limit"],
        )


@pytest.mark.hf
def test_one_list_of_tokens(tiny: Tiny) -> None:
    checkpoint = tiny("qwen4_exp")
    config = readings.config_of(checkpoint.folder)
    got = readings.from_folder(checkpoint.folder)
    block = config["indexer_compress_ratio"]
    width = config["indexer_budget"] // block * block + block - 1
    for attend in got.ops("sparse_gqa"):
        attrs = dict(attend.attrs)
        assert (attrs["block"], attrs["num_selected"], attrs["num_lists"]) == (1, width, 1)
        gate = got.op(f"layers.{attend.layer}.mixer.out_gate")
        assert dict(gate.inputs)["x"] == attend.id


@pytest.mark.hf
@both
def test_caches_hold_what_transformers_holds(tiny: Tiny, kind: str) -> None:
    """Qwen4-Exp's class keeps a raw index key for every token, where one for every block and the
    open block's are needed."""
    checkpoint = tiny(kind)
    config = readings.config_of(checkpoint.folder)
    got = readings.from_folder(checkpoint.folder)
    tokens = 34
    for layer, groups in enumerate(cache_bytes(checkpoint, tokens)):
        if got.mixers()[layer] != "sparse_gqa":
            continue
        assert got.held(layer, "kv", tokens) == groups["kv"].elements
        held = got.held(layer, "index", tokens)
        if kind == "minimax_m3":
            assert held == groups["index"].elements
            continue
        block, dim = config["indexer_compress_ratio"], config["indexer_head_dim"]
        assert groups["index"].elements == tokens * dim
        assert held == tokens // block * dim
        assert got.caches(layer)["indexer.tail"].span == block - 1


def test_real_model_bytes_per_token(corpus: Path) -> None:
    """60 layers of 2 x 4 x 128 and 57 index keys of 128 elements, drafts aside."""
    got = readings.from_corpus(corpus, "MiniMaxAI__MiniMax-M3")
    assert got.per_token("kv") * 2 == 122_880
    assert got.per_token("index") == 57 * 128
    assert got.mixers() == ["gqa"] * 3 + ["sparse_gqa"] * 57
    own = got.mixer(3).attention
    assert (own.rope.dims, own.rope.theta, own.qk_norm) == (64, 5e6, "head")
    assert got.facts["norm.zero_centered"].source == "config.json:use_gemma_norm"
    assert got.unread() == ()


def test_a_switch_turns_blocks_off(corpus: Path) -> None:
    config = dict(readings.from_corpus(corpus, "MiniMaxAI__MiniMax-M3").cfg.raw)
    nested = dict(config["sparse_attention_config"]) | {"use_sparse_attention": False}
    got = readings.from_parts(config | {"sparse_attention_config": nested}, None)
    assert set(got.mixers()) == {"gqa"}
