"""--quant: built-in recipes, files in the mission's form, and every kind of nonsense."""

from pathlib import Path

import pytest

from day0.errors import Day0Error
from day0.ir import format as formats
from day0.ir.cache import CacheSpec
from day0.ir.recipe import KEPT, RECIPES
from day0.ir.tensor import TensorSpec
from day0.ir.weight import Leaf, Weight
from day0.models.recipes import TABLES, recipe_called

MISSION = """
index_quant: {dtype: mxfp8, granularity: per-group, group_size: 32, mode: dynamic}
kv_quant: {dtype: fp8, granularity: per-token-head-tile, tile: 128}
attention_proj: {dtype: bf16}
"""


def weight(role: str, *dims: int, stored: str = "bf16") -> Weight:
    leaf = Leaf(name="w", dims=dims, format=stored)
    return Weight(name="w", spec=TensorSpec(dims=dims, format=stored), role=role, source=leaf)


def cache(role: str, *parts: str, slotted: bool = False, stored: str = "bf16") -> CacheSpec:
    spec = TensorSpec(dims=(192,), format=stored)
    return CacheSpec(
        name="c", growth="per-token", role=role, slotted=slotted,
        parts=tuple((part, spec) for part in parts),
    )  # fmt: skip


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return str(path)


def refusal(tmp_path: Path, text: str) -> Day0Error:
    with pytest.raises(Day0Error) as caught:
        recipe_called(written(tmp_path, text))
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp8"])
def test_built_in(name: str) -> None:
    assert recipe_called(name) is RECIPES[name]


@pytest.mark.parametrize(
    ("role", "runs"),
    {
        "experts": "fp8_b128", "shared_expert": "fp8_b128", "dense": "fp8_b128",
        "attention_proj": "bf16", "index_q": "bf16", "index_k": "bf16", "head": "bf16",
        "embedding": "bf16", "router": "fp32", "norm": "bf16", "state": "fp32", "conv": "bf16",
        "residual": "bf16", "lookup": "bf16",
    }.items(),
)  # fmt: skip
def test_fp8_is_hierarchical(role: str, runs: str) -> None:
    """DESIGN section 3; every role of a weight has its row here."""
    assert RECIPES["fp8"].weight(weight(role, 4, 256, 256)) == runs


def test_fp8_caches() -> None:
    recipe = RECIPES["fp8"]
    latent = cache("kv", "latent", "k_rope")
    assert [recipe.part(latent, part) for part, _ in latent.parts] == ["fp8_t128", "bf16"]
    assert recipe.cache(cache("index", "entry")) == "mxfp8"
    assert recipe.cache(cache("state", "state", stored="fp32")) == "fp32"
    assert recipe.cache(cache("conv", "conv_state", slotted=True)) == "bf16"
    assert recipe.cache(cache("index", "entry", "gate", slotted=True)) == "bf16"
    assert formats.get("fp8_t128").bytes((512,)) + formats.get("bf16").bytes((64,)) == 656
    assert formats.get("mxfp8").bytes((128,)) == 132


def test_index_weights_run_as_stored() -> None:
    recipe = RECIPES["fp8"]
    assert recipe.weight(weight("index_q", 256, 256, stored="fp8_b128")) == "fp8_b128"
    assert recipe.weight(weight("index_q", 256, 256, stored="fp32")) == "bf16"
    assert recipe.weight(weight("attention_proj", 256, 256, stored="fp8_b128")) == "bf16"


def test_biases_of_experts_are_no_matrices() -> None:
    assert RECIPES["fp8"].weight(weight("experts", 4, 256)) == "bf16"
    assert RECIPES["fp8"].weight(weight("dense", 256)) == "bf16"


def test_integers_stay() -> None:
    assert RECIPES["fp8"].weight(weight("router", 100, 4, stored="int64")) == "int64"


def test_the_missions_form(tmp_path: Path) -> None:
    recipe = recipe_called(written(tmp_path, MISSION))
    assert (recipe.name, recipe.plain) == ("mine", "bf16")
    assert dict(recipe.formats) == {
        "index": "mxfp8", "kv": "fp8_t128", "attention_proj": "bf16"
    }  # fmt: skip


def test_over_fp8_it_is_fp8(tmp_path: Path) -> None:
    recipe = recipe_called(written(tmp_path, f"base: fp8\n{MISSION}"))
    for role in TABLES:
        assert recipe.weight(weight(role, 4, 256, 256)) == RECIPES["fp8"].weight(
            weight(role, 4, 256, 256)
        )
    for role in ("kv", "index"):
        assert recipe.cache(cache(role, "x")) == RECIPES["fp8"].cache(cache(role, "x"))


@pytest.mark.parametrize(
    ("text", "role", "runs"),
    [
        ("dense: {dtype: fp8}", "dense", "fp8_b128"),
        ("dense: {dtype: fp8, granularity: per-block, block: 64}", "dense", "fp8_b64"),
        ("dense: {dtype: fp8, block: [128, 128]}", "dense", "fp8_b128"),
        ("head: {dtype: fp8, granularity: per-channel, mode: dynamic}", "head", "fp8_channel"),
        ("head: {dtype: fp8, granularity: per-tensor}", "head", "fp8_tensor"),
        ("experts: {dtype: mxfp8}", "experts", "mxfp8"),
        ("experts: {dtype: stored}", "experts", "bf16"),
        ("norm: {dtype: fp32}", "norm", "fp32"),
        ("router: {dtype: bf16}", "router", "bf16"),
        ("plain: fp32", "embedding", "fp32"),
        ("base: fp32", "experts", "fp32"),
    ],
)
def test_roles(text: str, role: str, runs: str, tmp_path: Path) -> None:
    assert recipe_called(written(tmp_path, text)).weight(weight(role, 4, 256, 256)) == runs


def test_caches(tmp_path: Path) -> None:
    text = "kv_quant: {dtype: fp8, tile: 64}\nrecurrent: {dtype: bf16}\nconv: {dtype: fp32}"
    recipe = recipe_called(written(tmp_path, text))
    assert recipe.cache(cache("kv", "key")) == "fp8_t64"
    assert recipe.cache(cache("state", "state", stored="fp32")) == "bf16"
    assert recipe.cache(cache("conv", "conv_state", slotted=True)) == "fp32"


@pytest.mark.parametrize(
    ("text", "value", "allowed"),
    [
        ("expert: {dtype: fp8}", "'expert'", "experts"),
        ("kv: {dtype: fp8}", "'kv'", "kv_quant"),
        ("kv_quant: {dtype: int4}", "'int4'", "mxfp8"),
        ("kv_quant: {granularity: per-group}", "None", "fp8"),
        ("kv_quant: {dtype: fp8, granularity: per-group}", "'per-group'", "per-token-head-tile"),
        ("dense: {dtype: mxfp8, granularity: per-block}", "'per-block'", "per-group"),
        ("index_quant: {dtype: mxfp8, group_size: 64}", "64", "32"),
        ("index_quant: {dtype: mxfp8, group_size: '32'}", "'32'", "32"),
        ("index_quant: {dtype: mxfp8, group_size: true}", "True", "32"),
        ("index_quant: {dtype: mxfp8, tile: 32}", "'tile'", "group_size"),
        ("index_quant: {dtype: mxfp8, mode: static}", "'static'", "dynamic"),
        ("kv_quant: {dtype: fp8, tile: 100}", "100", "128"),
        ("dense: {dtype: fp8, block: [128, 64]}", "[128, 64]", "128"),
        ("dense: {dtype: bf16, granularity: per-block}", "'granularity'", "dtype"),
        ("norm: {dtype: fp8}", "'fp8'", "fp32, bf16, fp16"),
        ("router: {dtype: mxfp8}", "'mxfp8'", "fp32, bf16, fp16"),
        ("recurrent: {dtype: fp8}", "'fp8'", "fp32, bf16, fp16"),
        ("kv_quant: {dtype: stored}", "'stored'", "fp8"),
        ("dense: bf16", "'bf16'", "{dtype: bf16}"),
        ("dense: {dtype: [fp8]}", "['fp8']", "fp8"),
        ("base: int8", "'int8'", "fp32, bf16, fp8"),
        ("base: [fp8]", "['fp8']", "fp32, bf16, fp8"),
        ("plain: fp8", "'fp8'", "fp32, bf16, fp16"),
        ("- fp8", "['fp8']", "a mapping"),
        ("", "None", "a mapping"),
        ("1: {dtype: bf16}", "1", "experts"),
    ],
)
def test_nonsense(text: str, value: str, allowed: str, tmp_path: Path) -> None:
    message = refusal(tmp_path, text).message
    said, _, permitted = message.partition("; allowed: ")
    assert value in said
    assert allowed in permitted


@pytest.mark.parametrize(
    "text", ["dense: {dtype: fp8}\ndense: {dtype: bf16}", "dense: {", "a: b: c"]
)
def test_no_yaml(text: str, tmp_path: Path) -> None:
    assert "is not YAML" in refusal(tmp_path, text).message


@pytest.mark.parametrize("name", ["int8", "FP8", "", "fp8.json"])
def test_unknown_name(name: str) -> None:
    with pytest.raises(Day0Error, match="fp32, bf16, fp8, or a FILE.yaml"):
        recipe_called(name)


def test_absent_file(tmp_path: Path) -> None:
    with pytest.raises(Day0Error, match="cannot be read"):
        recipe_called(str(tmp_path / "absent.yaml"))


def test_every_kept_role_has_words() -> None:
    assert set(KEPT) <= set(TABLES)
