"""Gated delta net: where its projections stand in four layouts, its state, its facts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from day0.ir.weight import Cat, Pick, dims_of, picks
from tests.mechanisms import readings
from tests.tiny import TinyCheckpoint, cache_bytes, rename

Tiny = Callable[..., TinyCheckpoint]
LAYOUTS = {
    "qwen3_next": "by_key_head",
    "qwen3_5": "qkv",
    "lara_mini": "one",
    "olmo_hybrid": "each",
}


@pytest.mark.hf
@pytest.mark.parametrize("headers", [True, False], ids=["headers", "config"])
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
@pytest.mark.parametrize("type_name", LAYOUTS)
def test_spec(tiny: Tiny, tmp_path: Path, type_name: str, known: bool, headers: bool) -> None:
    checkpoint = tiny(type_name)
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder, headers=headers)
    spec = got.mixer(got.mixers().index("gdn"))
    keys = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
            "linear_value_head_dim", "linear_conv_kernel_dim")  # fmt: skip
    assert tuple(config[key] for key in keys) == (
        spec.num_key_heads, spec.num_heads, spec.head_dim, spec.value_dim, spec.conv_size,
    )  # fmt: skip
    assert spec.beta_scale == (2.0 if config.get("linear_allow_neg_eigval") else 1.0)
    # OLMo-Hybrid's gated norm has an eps that no config states
    assert spec.norm_eps == (1e-5 if type_name == "olmo_hybrid" else config["rms_norm_eps"])
    assert spec.gate == "silu"
    assert got.facts["gdn.norm_eps"].how == "known"
    if headers:
        assert spec.layout == LAYOUTS[type_name]
        assert got.facts["gdn.row_order"].decisive


@pytest.mark.hf
@pytest.mark.parametrize("type_name", LAYOUTS)
def test_caches(tiny: Tiny, type_name: str) -> None:
    checkpoint = tiny(type_name)
    got = readings.from_folder(checkpoint.folder)
    for index, groups in enumerate(cache_bytes(checkpoint, 20)):
        if got.mixers()[index] != "gdn":
            continue
        spec, caches = got.mixer(index), got.caches(index)
        state = caches["state"]
        assert (state.growth, state.rollback) == ("per-sequence", "versions")
        assert state.parts[0][1].format == "fp32"
        tails = [cache for cache in caches.values() if cache.role == "conv"]
        assert {tail.span for tail in tails} == {spec.conv_size - 1}
        channels = sum(tail.elements for tail in tails)
        # the class keeps K inputs of a convolution, K - 1 are enough
        held = state.elements + channels * spec.conv_size
        assert groups["state"].elements == held


@pytest.mark.hf
def test_rows_per_key_head(tiny: Tiny) -> None:
    got = readings.from_folder(tiny("qwen3_next").folder)
    spec = got.mixer(0)
    dk, shared = spec.head_dim, spec.num_heads // spec.num_key_heads
    dv = shared * spec.value_dim
    borders = {"q": (0, dk), "k": (dk, 2 * dk), "v": (2 * dk, 2 * dk + dv),
               "z": (2 * dk + dv, 2 * dk + 2 * dv), "b": (0, shared),
               "a": (shared, 2 * shared)}  # fmt: skip
    for name, (start, stop) in borders.items():
        source = got.model.weights[f"layers.0.mixer.{name}_proj"].source
        assert isinstance(source, Pick)
        assert (source.start, source.stop) == (start, stop)
        assert source.period == (2 * shared if name in "ba" else 2 * dk + 2 * dv)
    kernels = [got.model.weights[f"layers.0.mixer.{name}_conv"].source for name in "qkv"]
    assert {leaf.name for kernel in kernels for leaf, _, _ in picks(kernel)} == {
        "model.layers.0.linear_attn.conv1d.weight"
    }
    assert [dims_of(kernel)[0] for kernel in kernels] == [
        spec.key_width, spec.key_width, spec.value_width,
    ]  # fmt: skip


@pytest.mark.hf
def test_one_matrix(tiny: Tiny) -> None:
    got = readings.from_folder(tiny("lara_mini").folder)
    spec = got.mixer(0)
    start = 0
    for name, rows in (
        ("q", spec.key_width), ("k", spec.key_width), ("v", spec.value_width),
        ("z", spec.value_width), ("b", spec.num_heads), ("a", spec.num_heads),
    ):  # fmt: skip
        source = got.model.weights[f"layers.0.mixer.{name}_proj"].source
        assert isinstance(source, Pick)
        assert (source.start, source.stop) == (start, start + rows)
        start += rows


@pytest.mark.hf
def test_thirds_of_a_saved_kernel(tiny: Tiny) -> None:
    """transformers saves OLMo-Hybrid's kernel in equal thirds, wherever q, k and v begin."""
    got = readings.from_folder(tiny("olmo_hybrid").folder)
    spec = got.mixer(0)
    widths = [spec.key_width, spec.key_width, spec.value_width]
    third = -(-sum(widths) // 3)
    stored = {"q": third, "k": third, "v": sum(widths) - 2 * third}
    assert widths != list(stored.values())
    order: list[tuple[str, int]] = []
    for name, width in zip("qkv", widths, strict=True):
        source = got.model.weights[f"layers.0.mixer.{name}_conv"].source
        assert dims_of(source) == (width, 1, spec.conv_size)
        for piece in source.of if isinstance(source, Cat) else (source,):
            assert isinstance(piece, Pick)
            letter = next(picks(piece))[0].name.split(".")[-2][0]
            order += [(letter, i) for i in range(piece.start, piece.stop)]
    assert order == [(name, i) for name, rows in stored.items() for i in range(rows)]


@pytest.mark.hf
def test_own_kernels_of_a_released_file(tiny: Tiny) -> None:
    """With the true sizes each kernel is one tensor."""
    got = readings.from_folder(tiny("olmo_hybrid").folder, headers=False)
    config = got.cfg.raw
    spec = got.mixer(0)
    assert got.params() == readings.from_folder(tiny("olmo_hybrid").folder).params()
    assert spec.key_width == config["linear_num_key_heads"] * config["linear_key_head_dim"]


@pytest.mark.hf
@pytest.mark.parametrize("known", [True, False], ids=["plain", "renamed"])
@pytest.mark.parametrize(
    ("type_name", "expected"),
    [("qwen3_next", True), ("qwen3_5_moe", True), ("olmo_hybrid", False), ("lara_mini", False)],
)
def test_zero_centred_norms(
    tiny: Tiny, tmp_path: Path, type_name: str, expected: bool, known: bool
) -> None:
    """Words tell Qwen's norms of 1 + w from the plain ones; the gated norm is always plain."""
    checkpoint = tiny(type_name)
    folder = (checkpoint if known else rename(checkpoint, tmp_path / "renamed")).folder
    got = readings.from_folder(folder)
    assert got.facts["norm.zero_centered"].how == "known"
    assert {op.attr("zero_centered") for op in got.ops("rmsnorm")} == {expected}


def test_absent_sizes_of_olmo_hybrid() -> None:
    config = {
        "model_type": "olmo_hybrid", "hidden_size": 64, "num_attention_heads": 4,
        "num_hidden_layers": 4, "intermediate_size": 96, "vocab_size": 50, "rms_norm_eps": 1e-6,
        "linear_conv_kernel_dim": 4, "rope_parameters": {"rope_theta": None},
    }  # fmt: skip
    got = readings.from_parts(config, None)
    spec = got.mixer(0)
    assert (spec.num_key_heads, spec.num_heads, spec.head_dim, spec.value_dim) == (4, 4, 12, 24)
    assert spec.beta_scale == 2.0
    assert got.mixers() == ["gdn", "gdn", "gdn", "gqa"]
    assert got.mixer(3).rope is None
    assert got.assumed() == {"dtype": "bf16"}
