"""DeepSeek-V4 attention: windows, pooled entries, their indexer, the two rotary tables."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from day0.mechanisms.shared_kv import EntryIndexer, SharedKv
from tests import listing
from tests.mechanisms import readings
from tests.tiny import TinyCheckpoint, cache_bytes, rename

Tiny = Callable[..., TinyCheckpoint]
FLASH = "deepseek-ai__DeepSeek-V4-Flash-0731"
PATTERN = {
    "sliding_attention": "sliding",
    "compressed_sparse_attention": "csa",
    "heavily_compressed_attention": "hca",
}


def kind_of(spec: SharedKv) -> str:
    return "sliding" if not spec.ratio else "csa" if spec.indexer is not None else "hca"


@pytest.mark.hf
@pytest.mark.parametrize("headers", [True, False], ids=["headers", "config"])
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
def test_spec(tiny: Tiny, tmp_path: Path, headers: bool, known: bool) -> None:
    checkpoint = tiny("deepseek_v4")
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder, headers=headers)
    assert set(got.mixers()) == {"shared_kv"}
    assert (got.assumed(), got.unread()) == ({}, ())
    assert got.params() == readings.from_folder(checkpoint.folder).params()
    rates = config["compress_rates"]
    for index, word in enumerate(config["layer_types"]):
        spec = got.mixer(index)
        kind = PATTERN[word]
        assert kind_of(spec) == kind
        assert spec.ratio == rates.get(word, 0)
        assert spec.overlap == (kind == "csa")
        assert spec.scale == config["head_dim"] ** -0.5
        assert (spec.num_heads, spec.head_dim, spec.window, spec.q_rank) == tuple(
            config[key]
            for key in ("num_attention_heads", "head_dim", "sliding_window", "q_lora_rank")
        )
        assert (spec.groups, spec.out_rank) == (config["o_groups"], config["o_lora_rank"])
        if kind == "csa":
            assert spec.indexer == EntryIndexer(
                num_heads=config["index_n_heads"],
                head_dim=config["index_head_dim"],
                top_k=config["index_topk"],
            )
        table = config["rope_parameters"]["main" if kind == "sliding" else "compress"]
        assert spec.rope.theta == table["rope_theta"]
        assert spec.rope.scaling == table["rope_type"]
        assert (spec.rope.pairing, spec.rope.place) == ("interleaved", "last")
        assert spec.rope.dims == config["qk_rope_head_dim"]
        args = dict(spec.rope.args)
        assert args.get("attention_factor") == (None if kind == "sliding" else 1.0)


@pytest.mark.hf
def test_every_tensor_is_explained(tiny: Tiny) -> None:
    assert readings.from_folder(tiny("deepseek_v4").folder).unexplained() == ([], [], [])


@pytest.mark.hf
def test_hub_spellings(tiny: Tiny) -> None:
    """Released files have no "model." prefix and call the norm of entries kv_norm."""
    checkpoint = tiny("deepseek_v4")
    got = readings.from_folder(checkpoint.folder)
    assert got.headers is not None
    headers = readings.renamed(
        got.headers,
        {"attn.norm.": "attn.kv_norm.", "model.hc_head.hc_": "hc_head_", "model.": "",
         "embed_tokens": "embed"},
    )  # fmt: skip
    other = readings.from_parts(readings.config_of(checkpoint.folder), headers)
    assert other.unexplained() == ([], [], [])
    assert [(op.family, op.attrs) for op in other.main.ops] == [
        (op.family, op.attrs) for op in got.main.ops
    ]


@pytest.mark.hf
def test_caches_hold_what_transformers_holds(tiny: Tiny, seed: int) -> None:
    """Entries and index keys to the element; transformers' window lacks the row itself, and its
    rest of an open pool is what it happens to hold, ours the most it can be."""
    checkpoint = tiny("deepseek_v4")
    got = readings.from_folder(checkpoint.folder)
    tokens = 30 + seed % 20
    for layer, groups in enumerate(cache_bytes(checkpoint, tokens)):
        caches = got.caches(layer)
        assert got.held(layer, "kv", tokens) == groups["kv"].elements
        assert got.held(layer, "index", tokens) == groups["index"].elements
        spec = got.mixer(layer)
        window = caches["window"]
        assert (window.growth, window.span, window.elements) == (
            "window",
            spec.window,
            spec.head_dim,
        )
        keys = next(tensor for tensor in groups["window"].tensors if tensor.name == "keys")
        assert keys.elements == window.elements * min(tokens, window.span - 1)
        if spec.ratio:
            tail, entries = caches["entries.tail"], caches["entries.pooled"]
            assert (entries.every, entries.align, entries.role) == (spec.ratio, spec.ratio, "kv")
            assert tail.span == (2 * spec.ratio - 1 if spec.overlap else spec.ratio - 1)
            assert tail.elements == 2 * spec.head_dim * (2 if spec.overlap else 1)


@pytest.mark.hf
def test_flow_of_a_layer_with_an_indexer(tiny: Tiny) -> None:
    got = readings.from_folder(tiny("deepseek_v4").folder)
    layer = next(i for i in range(len(got.mixers())) if got.mixer(i).indexer is not None)
    spec = got.mixer(layer)
    attend = got.op(f"layers.{layer}.mixer.attend")
    order = [op.id for op in got.main.ops]
    entries, keys, topk = (
        got.op(f"layers.{layer}.mixer.{name}")
        for name in ("entries.pool", "indexer.keys.pool", "indexer.topk")
    )
    # a row that closes a pool sees it
    assert order.index(entries.id) < order.index(attend.id)
    assert order.index(keys.id) < order.index(topk.id) < order.index(attend.id)
    assert dict(attend.inputs)["selected"] == topk.id
    assert dict(attend.attrs)["num_selected"] == spec.indexer.top_k
    assert dict(topk.attrs)["unit"] == "block"
    assert dict(topk.attrs)["scale"] == pytest.approx(
        (spec.indexer.num_heads * spec.indexer.head_dim) ** -0.5
    )
    for pool in (entries, keys):
        attrs = dict(pool.attrs)
        assert (attrs["rule"], attrs["overlap"], attrs["size"]) == ("softmax", True, spec.ratio)
        assert (attrs["rope_place"], attrs["rope_pairing"]) == ("last", "interleaved")
        assert (attrs["norm"], attrs["norm_eps"]) == ("rms", spec.norm_eps)
    back = got.op(f"layers.{layer}.mixer.out_rope")
    assert dict(back.attrs)["inverse"] is True
    assert dict(back.inputs)["x"] == attend.id
    grouped = got.op(f"layers.{layer}.mixer.o_a_proj")
    assert dict(grouped.attrs)["groups"] == spec.groups
    assert got.main.values[grouped.id].width == spec.groups * spec.out_rank
    head_norm = got.op(f"layers.{layer}.mixer.q_head_norm")
    assert head_norm.weights == ()
    assert dict(head_norm.attrs)["group"] == spec.head_dim


@pytest.mark.hf
def test_hash_layers_route_by_token(tiny: Tiny) -> None:
    checkpoint = tiny("deepseek_v4")
    words = readings.config_of(checkpoint.folder)["mlp_layer_types"]
    for headers in (True, False):
        got = readings.from_folder(checkpoint.folder, headers=headers)
        for layer, word in enumerate(words):
            (route,) = got.ops("moe_route", layer)
            hashed = word == "hash_moe"
            assert ("ids" in dict(route.inputs), "table" in dict(route.weights)) == (
                hashed,
                hashed,
            )
            assert ("bias" in dict(route.weights)) == (not hashed)
            assert dict(route.attrs)["score"] == "sqrtsoftplus"


def flash(corpus: Path) -> dict:
    return json.loads((corpus / "configs" / f"{FLASH}.json").read_text(encoding="utf-8"))


def test_flash_listing_is_explained(corpus: Path) -> None:
    headers = listing.headers(corpus / "headers" / f"{FLASH}.tsv")
    got = readings.from_parts(flash(corpus), headers)
    trunk = {name for name in headers.tensors if not name.startswith("mtp.")}
    used = {name for name in got.stored_names() if not name.startswith("mtp.")}
    assert used == trunk
    assert got.params() == 284_334_567_511


@pytest.mark.parametrize("headers", [True, False], ids=["headers", "config"])
def test_flash_bytes_per_token(corpus: Path, headers: bool) -> None:
    """21 layers with an entry of 512 for 4 tokens, 20 with one for 128: 5,536 bytes in bf16."""
    found = listing.headers(corpus / "headers" / f"{FLASH}.tsv") if headers else None
    got = readings.from_parts(flash(corpus), found)
    assert got.per_token("kv") * 2 == 21 * 512 / 4 * 2 + 20 * 512 / 128 * 2 == 5536
    assert got.per_token("index") == 672
    assert [kind_of(got.mixer(i)) for i in range(5)] == ["sliding", "sliding", "csa", "hca", "csa"]


def test_a_flat_scaling_reaches_compressed_layers_only(corpus: Path) -> None:
    got = readings.from_parts(flash(corpus), None)
    plain, compressed = got.mixer(0).rope, got.mixer(2).rope
    assert (plain.theta, plain.scaling, plain.args) == (10000.0, "default", ())
    assert (compressed.theta, compressed.scaling) == (160000.0, "yarn")
    assert dict(compressed.args)["attention_factor"] == 1.0
    assert dict(compressed.args)["factor"] == 16
    assert plain.dims == compressed.dims == 64


def test_pattern_of_the_class_when_no_word_gives_one(corpus: Path) -> None:
    config = flash(corpus)
    config.pop("compress_ratios")
    config.pop("qk_rope_head_dim")
    got = readings.from_parts(config, None)
    kinds = [kind_of(got.mixer(i)) for i in range(6)]
    assert kinds == ["hca", "hca", "hca", "csa", "hca", "csa"]
    assert (got.mixer(3).ratio, got.mixer(2).ratio, got.mixer(2).rope.dims) == (4, 128, 64)
    assert got.facts["shared_kv.kind"].how == "default"


def test_legacy_rates(corpus: Path) -> None:
    config = flash(corpus)
    ratios = config.pop("compress_ratios")[: config["num_hidden_layers"]]
    names = {0: "sliding_attention", 4: "compressed_sparse_attention"}
    config["layer_types"] = [names.get(r, "heavily_compressed_attention") for r in ratios]
    config |= {"compress_rate_csa": 8, "compress_rate_hca": 64}
    got = readings.from_parts(config, None)
    assert (got.mixer(2).ratio, got.mixer(3).ratio) == (8, 64)
    assert got.per_token("kv") == 21 * 512 / 8 + 20 * 512 / 64
