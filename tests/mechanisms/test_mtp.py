"""Drafts: declared or shipped, their parameters, their graph, what they share with the trunk."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from day0.checkpoint.headers import Headers, TensorHeader
from day0.ir.weight import leaves
from tests import listing
from tests.mechanisms import readings
from tests.tiny import TinyCheckpoint

Tiny = Callable[..., TinyCheckpoint]
GLM = "zai-org__GLM-5.2"
V32 = "deepseek-ai__DeepSeek-V3.2"
NEXT = "Qwen__Qwen3-Next-80B-A3B-Instruct"


def listed(corpus: Path, name: str) -> Headers:
    return listing.headers(corpus / "headers" / f"{name}.tsv")


def config_from(corpus: Path, name: str) -> dict[str, Any]:
    return json.loads((corpus / "configs" / f"{name}.json").read_text(encoding="utf-8"))


def draft_params(got: readings.Read) -> int:
    """Elements of the weights that only drafts have."""
    return sum(
        weight.spec.width for name, weight in got.model.weights.items() if name.startswith("mtp.")
    )


def codes(got: readings.Read) -> dict[str, str]:
    return {f.code: f.severity for f in got.reading.findings if f.code.startswith("mtp_")}


@pytest.mark.parametrize(
    ("name", "total", "draft"),
    [
        ("zai-org__GLM-5", 753_864_139_008, 9_952_920_576),
        ("zai-org__GLM-5.1", 753_864_139_008, 9_952_920_576),
        (GLM, 753_329_940_480, 9_952_920_576),
        (V32, 685_355_329_792, 13_477_385_728),
    ],
)
def test_declared_drafts_are_counted_and_kept_apart(
    corpus: Path, name: str, total: int, draft: int
) -> None:
    got = readings.from_corpus(corpus, name)
    assert got.params() == total
    assert draft_params(got) == draft
    assert list(got.model.graphs) == ["main", "mtp"]
    assert codes(got) == {}


def test_case_64_a_draft_is_one_layer(corpus: Path) -> None:
    got = readings.from_corpus(corpus, GLM)
    caches = [cache for name, cache in got.model.caches.items() if name.startswith("mtp.")]
    assert {(cache.role, cache.elements, cache.layer) for cache in caches} == {
        ("kv", 576, 78), ("index", 128, 78),
    }  # fmt: skip
    assert {op.layer for op in got.model.graphs["mtp"].ops} == {78}
    assert 2 * got.per_token("kv") == 89_856


@pytest.mark.parametrize("name", [GLM, V32, NEXT])
def test_listings_are_explained_whole(corpus: Path, name: str) -> None:
    headers = listed(corpus, name)
    got = readings.from_corpus(corpus, name, headers)
    assert got.stored_names() == set(headers.tensors)
    own = [n for n in ("mtp.0.embed", "mtp.0.head") if n in got.model.weights]
    assert own == (["mtp.0.embed", "mtp.0.head"] if name == V32 else [])


def test_graph_joins_embedding_and_hidden_rows(corpus: Path) -> None:
    got = readings.from_corpus(corpus, GLM, listed(corpus, GLM))
    graph = got.model.graphs["mtp"]
    ops = {op.id: op for op in graph.ops}
    assert graph.inputs == ("next_ids", "hidden")
    assert dict(ops["mtp.0.embedding"].weights) == {"table": "embed"}
    both = dict(ops["mtp.0.both"].inputs)
    assert both == {"x0": "mtp.0.embed_norm", "x1": "mtp.0.hidden_norm"}
    (join,) = leaves(got.model.weights["mtp.0.join"].source)
    assert (join[0].name, join[0].dims) == ("model.layers.78.eh_proj.weight", (6144, 12288))
    assert dict(ops["mtp.0.mixer.residual"].inputs)["a"] == "mtp.0.join"
    assert dict(ops["mtp.0.head"].weights) == {"weight": "head"}
    assert graph.outputs == ("mtp.0.head", "mtp.0.ffn.residual")
    # the trunk yields what the draft reads
    assert got.main.outputs == ("head", "norm")
    assert got.facts["mtp.hidden"].how == "assumed"
    assert not got.facts["mtp.hidden"].decisive


def test_case_101_shipped_and_not_declared(corpus: Path) -> None:
    got = readings.from_corpus(corpus, NEXT, listed(corpus, NEXT))
    assert codes(got) == {"mtp_undeclared": "info"}
    assert draft_params(got) == 1_650_471_424
    assert got.model.graphs["mtp"].ops[-1].id == "mtp.0.head"
    without = {n: h for n, h in listed(corpus, NEXT).tensors.items() if not n.startswith("mtp.")}
    bare = readings.from_corpus(corpus, NEXT, Headers(tensors=without, shards=("a",)))
    assert codes(bare) == {}
    assert list(bare.model.graphs) == ["main"]
    assert got.params() - bare.params() == 1_650_471_424


@pytest.mark.parametrize(
    ("name", "prefix", "key"),
    [(GLM, "model.layers.78.", None), (NEXT, "mtp.", "mtp_num_hidden_layers")],
)
def test_case_100_declared_and_not_shipped(
    corpus: Path, name: str, prefix: str, key: str | None
) -> None:
    tensors = {n: h for n, h in listed(corpus, name).tensors.items() if not n.startswith(prefix)}
    config = config_from(corpus, name) | ({key: 1} if key else {})
    got = readings.from_parts(config, Headers(tensors=tensors, shards=("a",)))
    assert codes(got) == {"mtp_missing": "warning"}
    assert list(got.model.graphs) == ["main"]
    assert got.reading.spec.drafts == ()
    assert got.stored_names() == set(tensors)


def test_case_99_a_draft_in_another_format_than_the_trunk(corpus: Path) -> None:
    """The exclude list says nothing of the draft, its headers say BF16: they decide."""
    tensors = dict(listed(corpus, V32).tensors)
    for name, header in list(tensors.items()):
        if name.startswith("model.layers.61.mlp.experts."):
            if name.endswith("_scale_inv"):
                del tensors[name]
            else:
                tensors[name] = TensorHeader("BF16", header.shape, 0, 0, "a")
    got = readings.from_corpus(corpus, V32, Headers(tensors=tensors, shards=("a",)))
    assert got.model.weights["mtp.0.ffn.gate"].spec.format == "bf16"
    assert got.model.weights["layers.60.ffn.gate"].spec.format.startswith("fp8")
    assert got.model.weights["mtp.0.ffn.gate"].spec.dims == (256, 2048, 7168)
    assert got.stored_names() == set(tensors)


def test_a_draft_may_read_the_rows_before_the_norm(corpus: Path) -> None:
    config = config_from(corpus, GLM)
    stated = readings.from_parts(config, None, stated={"mtp.hidden": "raw"})
    assert stated.main.outputs == ("head", "layers.77.ffn.residual")


@pytest.mark.hf
@pytest.mark.parametrize("count", [1, 2])
def test_tail_layers_of_a_tiny_checkpoint(tiny: Tiny, count: int) -> None:
    """The last layer once more, as layer L: transformers drops drafts, so they are made up."""
    plain = readings.from_folder(tiny("deepseek_v3").folder)
    assert plain.headers is not None
    config = readings.config_of(tiny("deepseek_v3").folder)
    layers, width = config["num_hidden_layers"], config["hidden_size"]
    tensors = dict(plain.headers.tensors)
    last = f"model.layers.{layers - 1}."
    for i in range(layers, layers + count):
        for name, header in plain.headers.tensors.items():
            if name.startswith(last):
                tensors[f"model.layers.{i}.{name.removeprefix(last)}"] = header
        shapes = {"enorm": (width,), "hnorm": (width,), "shared_head.norm": (width,),
                  "eh_proj": (width, 2 * width)}  # fmt: skip
        for name, shape in shapes.items():
            full = f"model.layers.{i}.{name}.weight"
            tensors[full] = TensorHeader("F32", shape, 0, 0, "a")
    headers = Headers(tensors=tensors, shards=("a",))
    got = readings.from_parts(config | {"num_nextn_predict_layers": count}, headers)
    assert codes(got) == {}
    assert got.unexplained() == ([], [], [])
    assert list(got.model.graphs) == ["main", "mtp", "mtp1"][: count + 1]
    assert got.main.ops == plain.main.ops
    assert codes(readings.from_parts(config, headers)) == {"mtp_undeclared": "info"}


@pytest.mark.hf
def test_two_steps_of_one_module_share_its_join(tiny: Tiny) -> None:
    config = readings.config_of(tiny("qwen3_next").folder) | {"mtp_num_hidden_layers": 2}
    got = readings.from_parts(config, None)
    assert list(got.model.graphs) == ["main", "mtp", "mtp1"]
    second = {op.id: op for op in got.model.graphs["mtp1"].ops}
    assert dict(second["mtp.1.join"].weights) == {"weight": "mtp.0.join"}
    assert dict(second["mtp.1.norm"].weights) == {"weight": "mtp.0.norm"}
    assert not [name for name in got.model.weights if name == "mtp.1.join"]
