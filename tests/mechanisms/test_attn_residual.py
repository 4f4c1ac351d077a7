"""Block attention residual: which sources every mix sees, its query, its variants."""

from collections.abc import Callable
from pathlib import Path

import pytest

from day0.checkpoint.headers import Headers, TensorHeader
from day0.ir.graph import Graph
from day0.ir.weight import Leaf, Mul, Reshape, leaves
from tests import listing
from tests.mechanisms import readings
from tests.tiny import TinyCheckpoint

Tiny = Callable[..., TinyCheckpoint]
KIMI_K3 = "moonshotai__Kimi-K3"


def sources(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Sources of every mix, by the op's id."""
    return {
        op.id: tuple(value for _, value in op.inputs)
        for op in graph.ops
        if op.family == "attn_residual"
    }


def expected(num_layers: int, block: int) -> dict[str, tuple[str, ...]]:
    """The published bookkeeping, run with the names of the graph's values."""
    table: dict[str, tuple[str, ...]] = {}
    blocks: list[str] = []
    prefix = "embedding"
    for i in range(num_layers):
        table[f"layers.{i}.mixer.mix"] = (*blocks, prefix)
        fresh = i % block == 0
        if fresh:
            blocks.append(prefix)
        prefix = f"layers.{i}.mixer.o_proj" if fresh else f"layers.{i}.mixer.residual"
        table[f"layers.{i}.ffn.mix"] = (*blocks, prefix)
        prefix = f"layers.{i}.ffn.residual"
    table["end.mix"] = (*blocks, prefix)
    return table


def test_kimi_k3_stores_eight_blocks(corpus: Path) -> None:
    got = readings.from_corpus(corpus, KIMI_K3)
    found = sources(got.main)
    assert found == expected(93, 12)
    assert len(found["end.mix"]) == 9
    assert {op.attr("eps") for op in got.ops("attn_residual")} == {1e-5}
    assert {op.attr("scale") for op in got.ops("attn_residual")} == {1.0}
    assert not any(op.attr("normed_values") for op in got.ops("attn_residual"))
    fact = got.facts["attn_residual.block_size"]
    assert (fact.value, fact.how, fact.decisive) == (12, "config", True)


def test_query_is_gain_times_projection(corpus: Path) -> None:
    headers = listing.headers(corpus / "headers" / f"{KIMI_K3}.tsv")
    got = readings.from_corpus(corpus, KIMI_K3, headers)
    weight = got.model.weights["layers.5.ffn.mix"]
    assert isinstance(weight.source, Mul)
    assert isinstance(weight.source.right, Reshape)
    assert weight.spec.dims == (7168,)
    assert weight.role == "residual"
    prefix = "language_model.model.layers.5.mlp_res_"
    assert [leaf.name for leaf, _ in leaves(weight.source)] == [
        f"{prefix}norm.weight", f"{prefix}proj.weight",
    ]  # fmt: skip
    end = [leaf.name for leaf, _ in leaves(got.model.weights["end.mix"].source)]
    assert end[0] == "language_model.model.output_attn_res_norm.weight"


def test_kimi_k3_against_its_listing(corpus: Path) -> None:
    """Cases 38 and 39: the experts' inner width is the latent's, told by the scales, and nothing is
    left over but the tower and the projector."""
    headers = listing.headers(corpus / "headers" / f"{KIMI_K3}.tsv")
    got = readings.from_corpus(corpus, KIMI_K3, headers)
    names = got.stored_names()
    assert names <= set(headers.tensors)
    left = {name.split(".")[0] for name in headers.tensors if name not in names}
    assert left == {"vision_tower", "mm_projector"}
    assert got.params() == 2_779_484_478_208
    experts = [w for w in got.model.weights.values() if w.role == "experts"]
    assert sum(weight.spec.width for weight in experts) == 2_722_740_830_208
    assert {weight.spec.format for weight in experts} == {"mxfp4"}
    assert got.model.weights["layers.1.ffn.gate"].spec.dims == (896, 3072, 3584)


def with_residual(plain: Headers, named: dict[str, tuple[int, ...]], layers: int) -> Headers:
    """The headers with tensors added to every layer ("{L}" in the name) or once."""
    tensors = dict(plain.tensors)
    for name, shape in named.items():
        for full in [name.format(L=i) for i in range(layers)] if "{L}" in name else [name]:
            tensors[full] = TensorHeader("F32", shape, 0, 0, "model.safetensors")
    return Headers(tensors=tensors, shards=plain.shards)


@pytest.mark.hf
def test_names_of_alice_ai(tiny: Tiny) -> None:
    plain = readings.from_folder(tiny("kimi_linear").folder)
    config = readings.config_of(tiny("kimi_linear").folder) | {"block_attn_res_block_size": 3}
    width = config["hidden_size"]
    assert plain.headers is not None
    added = {
        "model.layers.{L}.attn_res_proj.weight": (1, width),
        "model.layers.{L}.attn_res_norm_weight": (width,),
        "model.layers.{L}.mlp_res_proj.weight": (1, width),
        "model.layers.{L}.mlp_res_norm_weight": (width,),
        "model.attnres_final.res_proj.weight": (1, width),
        "model.attnres_final.res_norm_weight": (width,),
    }
    headers = with_residual(plain.headers, added, 8)
    tensors = {
        n: h for n, h in headers.tensors.items() if n != "model.layers.0.attn_res_norm_weight"
    }
    got = readings.from_parts(config, Headers(tensors=tensors, shards=headers.shards))
    assert got.unexplained() == ([], [], [])
    assert sources(got.main) == expected(8, 3)
    assert isinstance(got.model.weights["layers.0.mixer.mix"].source, Reshape)
    assert got.reading.spec.residual.stem == "attn_residual"


@pytest.mark.hf
def test_variant_of_inkling_2(tiny: Tiny) -> None:
    """Stored queries, unweighted norm, scaled scores, normed values; layer 0 has no first mix."""
    plain = readings.from_folder(tiny("kimi_linear").folder)
    config = readings.config_of(tiny("kimi_linear").folder) | {"n_layers_per_attn_res_block": 2}
    width = config["hidden_size"]
    assert plain.headers is not None
    added = {
        "model.layers.{L}.attention_input.query": (width,),
        "model.layers.{L}.mlp_input.query": (width,),
        "model.final_input.query": (width,),
    }
    headers = with_residual(plain.headers, added, 8)
    tensors = {
        n: h for n, h in headers.tensors.items() if n != "model.layers.0.attention_input.query"
    }
    got = readings.from_parts(config, Headers(tensors=tensors, shards=headers.shards))
    assert got.unexplained() == ([], [], [])
    table = expected(8, 2)
    table.pop("layers.0.mixer.mix")
    assert sources(got.main) == table
    for op in got.ops("attn_residual"):
        assert (op.attr("eps"), op.attr("normed_values")) == (1e-6, True)
        assert op.attr("scale") == pytest.approx(width**-0.5)
    assert isinstance(got.model.weights["layers.1.mixer.mix"].source, Leaf)


@pytest.mark.hf
def test_without_the_word_the_block_size_is_a_guess(tiny: Tiny) -> None:
    plain = readings.from_folder(tiny("kimi_linear").folder)
    config = readings.config_of(tiny("kimi_linear").folder)
    width = config["hidden_size"]
    assert plain.headers is not None
    added = {
        "model.layers.{L}.self_attention_res_proj.weight": (1, width),
        "model.layers.{L}.self_attention_res_norm.weight": (width,),
        "model.layers.{L}.mlp_res_proj.weight": (1, width),
        "model.layers.{L}.mlp_res_norm.weight": (width,),
        "model.output_attn_res_proj.weight": (1, width),
        "model.output_attn_res_norm.weight": (width,),
    }
    got = readings.from_parts(config, with_residual(plain.headers, added, 8))
    fact = got.facts["attn_residual.block_size"]
    assert (fact.how, fact.decisive) == ("assumed", True)
    assert got.unexplained() == ([], [], [])
