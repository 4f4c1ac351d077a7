"""Hyper-connections: two variants, two ends, from tensors and from words."""

from collections.abc import Callable
from pathlib import Path

import pytest

from day0.mechanisms.hyper_connection import HyperConnection
from tests.mechanisms import readings
from tests.tiny import TinyCheckpoint, rename

Tiny = Callable[..., TinyCheckpoint]

ENDS = {"glm5_next": "mean", "deepseek_v4": "head", "hy_v4": "head"}
every_type = pytest.mark.parametrize("kind", sorted(ENDS))


def expected(config: dict, kind: str, end: str) -> HyperConnection:
    return HyperConnection(
        num_streams=config["hc_mult"],
        variant="identity" if kind == "hy_v4" else "sinkhorn",
        eps=config["hc_eps"],
        norm_eps=config["rms_norm_eps"],
        iterations=config.get("hc_sinkhorn_iters", 0),
        magnitude=config.get("hc_magnitude", 2.0),
        end=end,
    )


@pytest.mark.hf
@every_type
@pytest.mark.parametrize("headers", [True, False], ids=["headers", "config"])
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
def test_spec(tiny: Tiny, tmp_path, kind: str, headers: bool, known: bool) -> None:
    checkpoint = tiny(kind)
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder, headers=headers)
    spec = got.reading.spec
    assert spec.residual.spec == expected(config, kind, ENDS[kind])
    for layer in spec.layers:
        for sublayer in layer.sublayers:
            assert sublayer.residual.spec == expected(config, kind, "")
            assert sublayer.norm_in is not None
    assert got.assumed() == {}
    assert got.unread() == ()
    assert got.facts["hyper.variant"].how == ("header" if headers else "config")
    is_stored = headers and ENDS[kind] == "head"
    assert got.facts["hyper.end"].how == ("header" if is_stored else "known")


@pytest.mark.hf
@every_type
def test_every_tensor_is_explained(tiny: Tiny, kind: str) -> None:
    assert readings.from_folder(tiny(kind).folder).unexplained() == ([], [], [])


@pytest.mark.hf
@every_type
def test_flow(tiny: Tiny, kind: str) -> None:
    got = readings.from_folder(tiny(kind).folder)
    layers = len(got.reading.spec.layers)
    spec = got.reading.spec.residual.spec
    m, hidden = spec.num_streams, got.reading.spec.shape.hidden_size
    reads, writes = got.ops("hyper_connection"), got.ops("hyper_write")
    assert len(writes) == 2 * layers
    assert len(reads) == 2 * layers + (ENDS[kind] == "head")
    value = got.main.ops[1]
    assert (value.family, dict(value.attrs)["rule"]) == ("streams", "copy")
    assert got.main.values[value.id].width == m * hidden
    stream = value.id
    for read, write in zip(reads, writes, strict=False):
        inputs = dict(write.inputs)
        assert dict(read.inputs)["x"] == stream == inputs["x"]
        assert inputs["post"] == f"{read.id}.post"
        assert ("mix" in inputs) == (spec.variant == "sinkhorn")
        assert got.main.values[f"{read.id}.post"].format == "fp32"
        rows = {"sinkhorn": (2 + m) * m, "identity": 2 * m}[spec.variant]
        fn = got.model.weights[dict(read.weights)["fn"]]
        assert (fn.spec.dims, fn.spec.format, fn.role) == ((rows, m * hidden), "fp32", "residual")
        stream = write.id
    end = got.op("streams_end")
    assert dict(end.inputs)["x"] == stream
    assert dict(got.op("norm").inputs)["x"] == end.id
    if ENDS[kind] == "head":
        assert dict(end.attrs)["variant"] == "head"
        assert got.model.weights["hyper_head_fn"].spec.dims == (m, m * hidden)
    else:
        assert dict(end.attrs) == {"num_streams": m, "rule": "mean"}


@pytest.mark.hf
def test_an_unknown_end_is_a_decisive_guess(tiny: Tiny) -> None:
    """No stored head and none of the words that tell what takes its place."""
    checkpoint = tiny("deepseek_v4")
    config = readings.config_of(checkpoint.folder) | {"model_type": "new"}
    config.pop("compress_rope_theta")
    got = readings.from_folder(checkpoint.folder)
    assert got.headers is not None
    tensors = {k: v for k, v in got.headers.tensors.items() if "hc_head" not in k}
    headers = type(got.headers)(tensors=tensors, shards=got.headers.shards)
    fact = readings.from_parts(config, headers).facts["hyper.end"]
    assert (fact.value, fact.how, fact.decisive) == ("mean", "assumed", True)


@pytest.mark.hf
def test_module_spellings(tiny: Tiny) -> None:
    """The names of transformers' own modules, as some tools write them."""
    got = readings.from_folder(tiny("glm5_next").folder)
    assert got.headers is not None
    headers = readings.renamed(got.headers, {"hc_attn_": "attn_hc.", "hc_ffn_": "ffn_hc."})
    config = readings.config_of(tiny("glm5_next").folder)
    other = readings.from_parts(config, headers)
    assert other.unexplained() == ([], [], [])
    assert other.params() == got.params()


def test_real_model(corpus: Path) -> None:
    """GLM-5.3-Flash: 34 KDA and 11 indexed layers of 45, four streams.

    Trunk and draft are the hub's total but for the 563,627,008 elements of the vision tower that
    transformers builds from this config; 11,264 bytes a token are 11 latents of 512 in bf16.
    """
    whole = readings.from_corpus(corpus, "zai-org__GLM-5.3-Flash")
    assert whole.params() + 563_627_008 == 321_323_031_390
    config = whole.cfg.top
    text = dict(config["text_config"]) | {"num_nextn_predict_layers": 0}
    got = readings.from_parts(dict(config) | {"text_config": text}, None)
    assert got.params() == 313_326_811_966
    assert got.per_token("kv") * 2 == 11_264
    assert got.per_token("index") == 11 * 128 / 4
    assert got.mixers() == (["kda"] * 3 + ["mla"]) * 11 + ["kda"]
    spec = got.reading.spec.residual.spec
    assert (spec.num_streams, spec.variant, spec.iterations, spec.end) == (
        4,
        "sinkhorn",
        20,
        "mean",
    )
