"""Kimi delta attention: its gates, its decay, the forms of A_log, which layers have it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from day0.ir.weight import Pick, Reshape
from tests import listing
from tests.mechanisms import readings
from tests.tiny import TinyCheckpoint, rename

Tiny = Callable[..., TinyCheckpoint]
KIMI_LINEAR = "moonshotai__Kimi-Linear-48B-A3B-Instruct"
KIMI_K3 = "moonshotai__Kimi-K3"


@pytest.mark.hf
@pytest.mark.parametrize("headers", [True, False], ids=["headers", "config"])
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
@pytest.mark.parametrize("type_name", ["kimi_linear", "bailing_hybrid"])
def test_spec(tiny: Tiny, tmp_path: Path, type_name: str, known: bool, headers: bool) -> None:
    checkpoint = tiny(type_name)
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder, headers=headers)
    assert [kind for kind, _ in checkpoint.layer_kinds] == got.mixers()
    spec = got.mixer(got.mixers().index("kda"))
    assert spec.num_heads == config["linear_num_heads"]
    assert spec.head_dim == config["linear_head_dim"]
    assert spec.conv_size == config["linear_conv_kernel_dim"]
    assert spec.norm_eps == config["rms_norm_eps"]
    full = type_name == "bailing_hybrid"
    assert spec.gate_rank == spec.out_rank == (0 if full else spec.head_dim)
    safe = config.get("kda_safe_gate", False)
    assert spec.lower_bound == (config["kda_lower_bound"] if safe else None)
    assert got.facts["kda.lower_bound"].decisive
    assert got.unread() == ()
    if headers:
        assert got.unexplained() == ([], [], [])


@pytest.mark.hf
def test_cache_holds_states_and_tails(tiny: Tiny) -> None:
    got = readings.from_folder(tiny("kimi_linear").folder)
    spec = got.mixer(0)
    caches = got.caches(0)
    state = caches["state"]
    n, d = spec.num_heads, spec.head_dim
    assert (state.growth, state.elements, state.rollback) == ("per-sequence", n * d * d, "versions")
    assert state.parts[0][1].format == "fp32"
    for name in ("q_conv.tail", "k_conv.tail", "v_conv.tail"):
        assert (caches[name].span, caches[name].elements) == (spec.conv_size - 1, n * d)


@pytest.mark.hf
def test_a_log_of_one_per_head_is_flattened(tiny: Tiny) -> None:
    got = readings.from_folder(tiny("kimi_linear").folder)
    weight = got.model.weights["layers.0.mixer.a_log"]
    assert isinstance(weight.source, Reshape)
    assert weight.source.of.dims == (1, 1, got.mixer(0).num_heads, 1)  # pyright: ignore
    assert weight.padding == ()


def test_padded_a_log_is_explained_whole(corpus: Path) -> None:
    headers = listing.headers(corpus / "headers" / f"{KIMI_K3}.tsv")
    got = readings.from_corpus(corpus, KIMI_K3, headers)
    weight = got.model.weights["layers.0.mixer.a_log"]
    (rest,) = weight.padding
    assert weight.spec.dims == (96,)
    assert isinstance(weight.source, Pick)
    assert isinstance(rest, Pick)
    assert (weight.source.start, weight.source.stop, rest.start, rest.stop) == (0, 96, 96, 128)
    spec = got.mixer(0)
    assert (spec.num_heads, spec.head_dim, spec.gate_rank, spec.out_rank) == (96, 128, 128, 0)


@pytest.mark.parametrize(
    ("name", "decay", "bound"), [(KIMI_LINEAR, "softplus", None), (KIMI_K3, "bounded", -5.0)]
)
def test_case_153_presence_of_the_bound_chooses_the_equation(
    corpus: Path, name: str, decay: str, bound: float | None
) -> None:
    op = readings.from_corpus(corpus, name).ops("kda")[0]
    assert (op.attr("decay"), op.attr("lower_bound")) == (decay, bound)


@pytest.mark.parametrize(("name", "layers"), [(KIMI_LINEAR, 27), (KIMI_K3, 93)])
def test_case_36_numbers_start_at_one(corpus: Path, name: str, layers: int) -> None:
    mixers = readings.from_corpus(corpus, name).mixers()
    full = [i for i, mixer in enumerate(mixers) if mixer == "mla"]
    assert full == [*range(3, layers - 1, 4), layers - 1]
    assert len(mixers) == layers
    assert set(mixers) == {"kda", "mla"}


def test_case_36_a_number_out_of_range_is_reported(corpus: Path) -> None:
    text = (corpus / "configs" / f"{KIMI_LINEAR}.json").read_text(encoding="utf-8")
    config = json.loads(text)
    config["linear_attn_config"]["kda_layers"][0] = 99
    codes = [finding.code for finding in readings.from_parts(config, None).reading.findings]
    assert "layer_list" in codes


@pytest.mark.hf
def test_incomplete_last_group_is_full_attention(tiny: Tiny) -> None:
    config = readings.config_of(tiny("bailing_hybrid").folder)
    for key in ("layer_types", "mlp_layer_types"):
        config.pop(key)
    config |= {"layer_group_size": 4, "num_hidden_layers": 10}
    mixers = readings.from_parts(config, None).mixers()
    assert mixers == ["kda", "kda", "kda", "mla"] * 2 + ["mla", "mla"]


@pytest.mark.hf
def test_head_dim_of_the_hub_file_is_that_of_kda(tiny: Tiny) -> None:
    """Ling's file has head_dim for KDA; saved again, head_dim is the rotary width."""
    config = readings.config_of(tiny("bailing_hybrid").folder)
    saved = readings.from_parts(config, None)
    config["head_dim"] = config.pop("linear_head_dim")
    config.pop("linear_num_heads")
    assert config.pop("linear_conv_kernel_dim") == config["short_conv_kernel_size"]
    hub = readings.from_parts(config, None)
    assert hub.reading.spec.layers == saved.reading.spec.layers
    assert hub.params() == saved.params()
