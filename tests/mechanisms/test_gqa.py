"""Grouped-query attention: heads, windows, norms, biases, sinks, gates, rotary embedding."""

from collections.abc import Callable
from pathlib import Path

import pytest

from day0.analysis.proof import prove
from day0.ir.weight import Pick
from tests.mechanisms import readings
from tests.mechanisms.small import llama, made_up, size
from tests.tiny import TinyCheckpoint, cache_bytes, rename

Tiny = Callable[..., TinyCheckpoint]
PLAIN = ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral", "glm4_moe", "gpt_oss")
HYBRID = ("qwen3_next", "qwen3_5", "qwen3_5_moe", "olmo_hybrid", "lara_mini", "minimax")
# model -> (total on the hub, bytes a further token adds at bf16); manifest.tsv of the corpus
HUB = {
    "01-ai__Yi-34B": (34388917248, 245760),
    "codellama__CodeLlama-34b-Instruct-hf": (33743970304, 196608),
    "meta-llama__Llama-3.1-8B-Instruct": (8030261248, 131072),
    "meta-llama__Llama-3.1-70B-Instruct": (70553706496, 327680),
    "mistralai__Mistral-Nemo-Instruct-2407": (12247782400, 163840),
    "Qwen__Qwen2-0.5B": (494032768, 12288),
    "Qwen__Qwen2-72B": (72706203648, 327680),
    "Qwen__Qwen2.5-7B-Instruct": (7615616512, 57344),
    "Qwen__Qwen3-8B": (8190735360, 147456),
    "Qwen__Qwen3-30B-A3B": (30532122624, 98304),
    "Qwen__Qwen3-235B-A22B": (235093634560, 192512),
    "Qwen__Qwen3.8-2.4T-A95B": (2446182725504, 94208),
    "MiniMaxAI__MiniMax-M1-80k": (456089655296, 40960),
}


@pytest.mark.hf
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
@pytest.mark.parametrize("type_name", [*PLAIN, *HYBRID])
def test_every_tensor_is_explained(tiny: Tiny, tmp_path: Path, type_name: str, known: bool) -> None:
    checkpoint = tiny(type_name)
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    got = readings.from_folder(folder)
    assert prove(got.model, got.headers).status == "proved"
    assert (got.reading.findings, got.unread()) == ([], ())
    assert got.params() == checkpoint.num_params + checkpoint.num_buffer_elements
    mixers = {"sliding_gqa": "gqa"}
    assert got.mixers() == [mixers.get(mixer, mixer) for mixer, _ in checkpoint.layer_kinds]
    ffns = [layer.sublayers[1].branches[0].stem for layer in got.reading.spec.layers]
    assert ffns == [ffn for _, ffn in checkpoint.layer_kinds]
    # what is assumed may be wrong only where nothing tells it from what is common
    assert not [path for path, fact in got.facts.items() if fact.how == "assumed" and fact.decisive]
    if known:
        assert got.assumed() == {}


@pytest.mark.hf
@pytest.mark.parametrize("type_name", [*PLAIN, *HYBRID])
def test_config_alone_counts_the_same(tiny: Tiny, type_name: str) -> None:
    checkpoint = tiny(type_name)
    got = readings.from_folder(checkpoint.folder, headers=False)
    learned = sum(
        elements for name, elements in checkpoint.buffers if name.endswith("correction_bias")
    )
    assert got.params() == checkpoint.num_params + learned
    full = readings.from_folder(checkpoint.folder)
    assert got.mixers() == full.mixers()
    assert {n: c.elements for n, c in got.model.caches.items()} == {
        n: c.elements for n, c in full.model.caches.items()
    }


@pytest.mark.hf
@pytest.mark.parametrize("type_name", ["mistral", "qwen2", "gpt_oss", "lara_mini", "qwen3_next"])
def test_caches_hold_what_transformers_holds(tiny: Tiny, type_name: str) -> None:
    checkpoint = tiny(type_name)
    got = readings.from_folder(checkpoint.folder)
    for index, groups in enumerate(cache_bytes(checkpoint, 40)):
        if got.mixers()[index] != "gqa":
            continue
        cache = got.caches(index)["kv"]
        spec = got.mixer(index)
        if spec.window:
            # a query sees itself: the class keeps one token less between steps
            assert cache.growth == "window"
            assert cache.span == spec.window
            assert groups["window"].elements == cache.elements * (spec.window - 1)
        else:
            assert groups["kv"].elements == cache.elements * cache.entries(40)


@pytest.mark.parametrize("name", HUB)
def test_hub_totals(corpus: Path, name: str) -> None:
    got = readings.from_corpus(corpus, name)
    total, per_token = HUB[name]
    assert got.params() == total
    assert 2 * got.per_token("kv") == per_token
    assert [key for key in got.unread() if not key.startswith("mtp")] == []


@pytest.mark.parametrize(
    "name",
    ["Qwen__Qwen3-Next-80B-A3B-Instruct", "openai__gpt-oss-20b", "TheBloke__Llama-2-7B-AWQ"],
)
def test_listings_are_explained(corpus: Path, name: str) -> None:
    from tests import listing

    headers = listing.headers(corpus / "headers" / f"{name}.tsv")
    got = readings.from_corpus(corpus, name, headers)
    stored = {tensor for tensor in headers.tensors if not tensor.startswith("mtp.")}
    read = {tensor for tensor in got.stored_names() if not tensor.startswith("mtp.")}
    assert read == stored


@pytest.mark.hf
def test_gated_queries_are_rows_per_head(tiny: Tiny) -> None:
    got = readings.from_folder(tiny("qwen3_next").folder)
    layer = got.mixers().index("gqa")
    spec = got.mixer(layer)
    assert spec.out_gate == "fused"
    assert spec.zero_centered
    q = got.model.weights[f"layers.{layer}.mixer.q_proj"].source
    gate = got.model.weights[f"layers.{layer}.mixer.gate_proj"].source
    assert isinstance(q, Pick)
    assert isinstance(gate, Pick)
    dh = spec.head_dim
    assert (q.period, q.start, q.stop) == (2 * dh, 0, dh)
    assert (gate.period, gate.start, gate.stop) == (2 * dh, dh, 2 * dh)
    out = got.op(f"layers.{layer}.mixer.out_gate")
    assert out.family == "gate"
    assert out.attr("activation") == "sigmoid"


@pytest.mark.hf
def test_norm_over_all_heads(tiny: Tiny) -> None:
    got = readings.from_folder(tiny("olmo_hybrid").folder)
    layer = got.mixers().index("gqa")
    spec = got.mixer(layer)
    assert spec.qk_norm == "full"
    norm = got.op(f"layers.{layer}.mixer.q_norm")
    assert norm.attr("group") == 0
    weight = got.model.weights[dict(norm.weights)["weight"]]
    assert weight.spec.dims == (spec.num_heads * spec.head_dim,)


@pytest.mark.hf
def test_sinks_and_biases(tiny: Tiny) -> None:
    got = readings.from_folder(tiny("gpt_oss").folder)
    for layer, word in enumerate(["sliding", "full"] * 2):
        spec = got.mixer(layer)
        assert (spec.sink, spec.qkv_bias, spec.out_bias) == (True, True, True)
        assert bool(spec.window) == (word == "sliding")
        attend = got.op(f"layers.{layer}.mixer.attend")
        assert got.model.weights[dict(attend.weights)["sink"]].spec.dims == (spec.num_heads,)


@pytest.mark.hf
def test_attention_bias_without_output(tiny: Tiny) -> None:
    """GLM-4.5's attention_bias means q, k and v."""
    for headers in (True, False):
        spec = readings.from_folder(tiny("glm4_moe").folder, headers=headers).mixer(0)
        assert (spec.qkv_bias, spec.out_bias, spec.qk_norm) == (True, False, "head")


@pytest.mark.hf
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
def test_no_rope_on_full_layers(tiny: Tiny, tmp_path: Path, known: bool) -> None:
    checkpoint = tiny("lara_mini")
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    got = readings.from_folder(folder)
    for layer, (mixer, _) in enumerate(checkpoint.layer_kinds):
        if mixer != "gdn":
            assert (got.mixer(layer).rope is None) == (mixer == "gqa")
    assert got.facts["gqa.no_rope.full_attention"].how == "known"


def test_case_2_synonyms_and_a_tensor_too_many() -> None:
    """An unknown tensor is reported, and the analysis goes on."""
    config = llama(model_max_length=512)
    base = readings.from_parts(config, None)
    assert base.reading.spec.context_length == 512
    names = dict(_leaves(base))
    names["model.layers.0.self_attn.k_norm.weight"] = (3,)
    got = readings.from_parts(config, made_up(names))
    missing, unexpected, wrong = got.unexplained()
    assert (missing, wrong) == ([], [])
    assert unexpected == ["model.layers.0.self_attn.k_norm.weight"]


def test_case_9_tied_in_the_inner_config_only() -> None:
    inner = llama()
    config = {"model_type": "mistral3", "text_config": inner}
    names = dict(_leaves(readings.from_parts(inner, None)))
    got = readings.from_parts(config, made_up(names))
    assert got.reading.spec.tied
    assert got.reading.findings == []
    assert got.params() == sum(size(dims) for dims in names.values())


def test_a_promised_norm_is_missed() -> None:
    """A tensor that the type promises is named when it is not there."""
    config = llama(model_type="qwen3")
    names = dict(_leaves(readings.from_parts(config, None)))
    gone = "model.layers.0.self_attn.q_norm.weight"
    del names[gone]
    missing, unexpected, _ = readings.from_parts(config, made_up(names)).unexplained()
    assert (missing, unexpected) == ([gone], [])


def test_case_54_bytes_over_tokens(corpus: Path) -> None:
    """gpt-oss-20b: 12 full layers grow, 12 windows of 128 stop growing."""
    got = readings.from_corpus(corpus, "openai__gpt-oss-20b")
    per_layer = 2 * 2 * 8 * 64
    for tokens in (1, 128, 1000):
        held = sum(2 * c.elements * c.entries(tokens) for c in got.model.caches.values())
        assert held == 12 * per_layer * tokens + 12 * per_layer * min(tokens, 128)


def _leaves(got: readings.Read) -> list[tuple[str, tuple[int, ...]]]:
    return [(leaf.name, leaf.dims) for leaf, _, _ in got._leaves()]
