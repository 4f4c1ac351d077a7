"""Block indexers: pooled keys for all heads (QSA), pooled scores per KV head (MiniMax-M3)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from day0.ir.weight import Pick
from day0.mechanisms.block_indexer import BlockIndexer
from tests.mechanisms import readings
from tests.tiny import TinyCheckpoint

Tiny = Callable[..., TinyCheckpoint]


def first(got: readings.Read) -> tuple[int, BlockIndexer]:
    layer = got.mixers().index("sparse_gqa")
    return layer, got.mixer(layer).indexer


@pytest.mark.hf
@pytest.mark.parametrize("headers", [True, False], ids=["headers", "config"])
def test_pooled_keys(tiny: Tiny, headers: bool) -> None:
    folder = tiny("qwen4_exp").folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder, headers=headers)
    layer, spec = first(got)
    block = config["indexer_compress_ratio"]
    assert spec == BlockIndexer(
        pool="mean",
        num_heads=config["indexer_n_heads"],
        head_dim=config["indexer_head_dim"],
        block=block,
        num_blocks=config["indexer_budget"] // block,
        local_blocks=0,
        rope=got.mixer(layer).attention.rope,
        norm_eps=config["rms_norm_eps"],
        zero_centered=True,
    )
    pool = got.op(f"layers.{layer}.mixer.indexer.pool")
    attrs = dict(pool.attrs)
    assert spec.rope is not None
    assert (attrs["rule"], attrs["size"], attrs["norm"]) == ("mean", block, "rms")
    assert (attrs["zero_centered"], attrs["overlap"]) == (True, False)
    assert (attrs["rope_dims"], attrs["rope_place"]) == (spec.rope.dims, "first")
    topk = dict(got.op(f"layers.{layer}.mixer.indexer.topk").attrs)
    assert (topk["relu"], topk["pool"], topk["tail"], topk["unit"]) == (True, "mean", True, "token")
    assert topk["scale"] == pytest.approx(config["indexer_head_dim"] ** -0.5)
    assert topk["top_k"] == spec.num_selected == spec.num_blocks * block + block - 1
    assert got.op(f"layers.{layer}.mixer.indexer.topk").inputs == (
        ("q", f"layers.{layer}.mixer.indexer.q_rope"),
    )


@pytest.mark.hf
def test_fused_rows_are_queries_then_one_key(tiny: Tiny) -> None:
    folder = tiny("qwen4_exp").folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder)
    layer, spec = first(got)
    rows = spec.num_heads * spec.head_dim
    picks = [
        got.model.weights[f"layers.{layer}.mixer.indexer.{name}"].source
        for name in ("q_proj", "k_proj")
    ]
    assert all(isinstance(pick, Pick) for pick in picks)
    assert [(p.start, p.stop, p.period) for p in picks if isinstance(p, Pick)] == [
        (0, rows, rows + config["indexer_head_dim"]),
        (rows, rows + config["indexer_head_dim"], rows + config["indexer_head_dim"]),
    ]


@pytest.mark.hf
@pytest.mark.parametrize("headers", [True, False], ids=["headers", "config"])
def test_pooled_scores(tiny: Tiny, headers: bool) -> None:
    folder = tiny("minimax_m3").folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder, headers=headers)
    layer, spec = first(got)
    assert spec == BlockIndexer(
        pool="max",
        num_heads=config["index_n_heads"],
        head_dim=config["index_head_dim"],
        block=config["index_block_size"],
        num_blocks=config["index_topk_blocks"],
        local_blocks=config["index_local_blocks"],
        rope=got.mixer(layer).attention.rope,
        norm_eps=config["rms_norm_eps"],
        zero_centered=True,
    )
    topk = got.op(f"layers.{layer}.mixer.indexer.topk")
    attrs = dict(topk.attrs)
    assert (attrs["relu"], attrs["scale"], attrs["tail"]) == (False, 1.0, False)
    assert (attrs["pool"], attrs["unit"], attrs["local_blocks"]) == (
        "max",
        "block",
        config["index_local_blocks"],
    )
    width = config["index_n_heads"] * config["index_topk_blocks"]
    assert got.main.values[topk.id].width == width
    keys = got.caches(layer)["indexer.keys"]
    assert (keys.growth, keys.elements) == ("per-token", config["index_head_dim"])


def test_words_of_the_released_file(corpus: Path) -> None:
    got = readings.from_corpus(corpus, "MiniMaxAI__MiniMax-M3")
    _, spec = first(got)
    assert (spec.num_heads, spec.head_dim, spec.block) == (4, 128, 128)
    assert (spec.num_blocks, spec.local_blocks, spec.num_lists) == (16, 1, 4)
    source = got.facts["block_indexer.block"].source
    assert source == "config.json:sparse_attention_config.sparse_block_size"


@pytest.mark.hf
def test_older_files_call_indexed_layers_full(tiny: Tiny) -> None:
    folder = tiny("qwen4_exp").folder
    config = readings.config_of(folder)
    old = config | {"layer_types": [w.replace("indexed", "full") for w in config["layer_types"]]}
    new, other = readings.from_parts(config, None), readings.from_parts(old, None)
    assert other.mixers() == new.mixers()
    assert other.mixers().count("sparse_gqa") == config["layer_types"].count("indexed_attention")
