"""Recognition of stored weights: spellings, real listings, damage, and the field cases."""

import math
import random
from collections import Counter

import pytest

from day0.checkpoint.headers import DTYPE_BITS, TensorHeader
from day0.ir import format as formats
from day0.models.quant_config import quant_config
from day0.models.stored import alternatives, companion_of, exists, logical_dims, recognise
from day0.models.stored_kv import kv_scales
from tests import corpus as corpus_place
from tests import listing
from tests.models.spellings import SPELLINGS, made

FP8 = quant_config(
    {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
)
PACKED = quant_config({"quantization_config": {
    "quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {
        "targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "group",
                                           "group_size": 64}}}}})  # fmt: skip


@pytest.mark.parametrize(
    ("name", "dims", "tensors", "format_name", "parts"),
    [row[1:] for row in SPELLINGS],
    ids=[row[0] for row in SPELLINGS],
)
def test_spelling(name, dims, tensors, format_name, parts):
    found = recognise(name, dims, tensors)
    assert (found.format, dict(found.parts)) == (format_name, parts)
    described = formats.get(found.format)
    for part, stored in found.parts:
        assert described.part(part).fits(dims, tensors[stored].shape), part
        assert tensors[stored].dtype in described.part(part).dtypes, part
    assert {part for part, _ in found.parts} >= {part.name for part in described.required}
    assert logical_dims(found, tensors) == dims
    assert exists(name, tensors)
    assert found.data in alternatives(name)
    companions = [stored for part, stored in found.parts if part != "data"]
    assert {companion_of(stored, tensors) for stored in companions} <= {found.data}
    assert companion_of(found.data, tensors) == ""


@pytest.mark.parametrize("name", corpus_place.names("headers", ".tsv"))
def test_a_listing_is_covered_by_its_weights(corpus, name):
    """Every tensor is a weight's data or one of its companions, once; shapes and dtypes fit."""
    headers = listing.headers(corpus / "headers" / f"{name}.tsv")
    rows = listing.rows(corpus / "headers" / f"{name}.tsv")
    explained, kinds = Counter(), Counter()
    for row in rows:
        first = next(row.names())
        if companion_of(first, headers.tensors):
            continue
        weight = first.removesuffix("_blocks")
        for suffix in (".weight_packed", ".qweight"):
            if weight.endswith(suffix):
                weight = weight.removesuffix(suffix) + ".weight"
        found = recognise(weight, row.shape, headers.tensors)
        dims = logical_dims(found, headers.tensors)
        assert dims is not None
        again = recognise(weight, dims, headers.tensors)
        assert again == found
        for part, stored in found.parts:
            described = formats.get(found.format).part(part)
            assert described.fits(dims, headers.tensors[stored].shape), stored
            assert headers.tensors[stored].dtype in described.dtypes, stored
            explained[stored] += 1
        kinds[found.format] += row.count * math.prod(dims)
    firsts = {next(row.names()) for row in rows}
    assert set(explained) == firsts
    assert max(explained.values()) == 1
    # Logical parameters; Kimi-K3's from its listing's note, AWQ's likewise.
    expected = {"moonshotai__Kimi-K3": 2_779_931_837_184, "TheBloke__Llama-2-7B-AWQ": 6_738_415_616}
    if name in expected:
        assert sum(kinds.values()) == expected[name]


def test_a_stack_is_named_by_its_template():
    tensors = {}
    for expert in range(3):
        tensors |= made(**{f"experts__{expert}__w1__weight_packed": ("U8", 64, 48),
                           f"experts__{expert}__w1__weight_scale": ("U8", 64, 3)})  # fmt: skip
    whole = recognise("experts.{e}.w1.weight", (64, 96), tensors)
    assert whole.parts == (("data", "experts.{e}.w1.weight_packed"),
                           ("scale", "experts.{e}.w1.weight_scale"))  # fmt: skip
    assert whole.format == "mxfp4"
    for lost in ("weight_packed", "weight_scale"):
        damaged = {name: t for name, t in tensors.items() if name != f"experts.0.w1.{lost}"}
        assert recognise("experts.{e}.w1.weight", (64, 96), damaged) == whole
    assert exists("experts.{e}.w1.weight", tensors)
    assert not exists("experts.{e}.w4.weight", tensors)
    absent = recognise("experts.{e}.w4.weight", (64, 96), tensors, dtype="fp16")
    assert (absent.format, absent.parts) == ("fp16", (("data", "experts.{e}.w4.weight"),))


# id, tensor to drop, hint
LOST = [(f"{row[0]}-without-{part}", row, stored) for row in SPELLINGS
        for part, stored in row[5].items()
        if row[0] not in ("plain", "router-with-a-scale-of-its-own")
        and part in ("data", "scale", "zeros", "global_scale", "global_divisor")]  # fmt: skip


@pytest.mark.parametrize(("row", "lost"), [case[1:] for case in LOST], ids=[c[0] for c in LOST])
def test_a_lost_part_is_named(row, lost):
    """With whole neighbours in the file, the damaged weight gets the neighbours' names."""
    _, name, dims, tensors, format_name, parts = row
    whole = {f"other.{key}": header for key, header in tensors.items()}
    damaged = whole | {key: header for key, header in tensors.items() if key != lost}
    found = recognise(name, dims, damaged)
    optional = {part.name for part in formats.get(format_name).parts if part.optional}
    required = {part: stored for part, stored in parts.items() if part not in optional}
    got = {part: stored for part, stored in found.parts if part not in optional}
    if lost in required.values():
        # LLM.int8 codes without their SCB are plain bytes to a reader of headers.
        assert lost in got.values() or (format_name, found.format) == ("bnb8", "int8"), got
        assert set(got.values()) <= set(required.values())


@pytest.mark.parametrize(
    ("tensors", "hint", "scale"),
    [
        (made(x__weight=("F8_E4M3", 256, 256)), None, "x.weight_scale_inv"),
        (made(x__weight=("F8_E4M3", 256, 256)), FP8, "x.weight_scale_inv"),
        (made(x__weight=("F8_E4M3", 256, 256), y__weight=("F8_E4M3", 256, 256),
              y__scale=("F8_E8M0", 2, 2)), FP8, "x.scale"),
        (made(x__weight=("F8_E4M3", 256, 256), y__weight=("F8_E4M3", 256, 256),
              y__weight_scale=("F32",)), None, "x.weight_scale"),
    ],
    ids=["alone", "config-only", "as-v4-neighbours", "as-per-tensor-neighbours"],
)  # fmt: skip
def test_f8_without_a_scale_names_the_missing_one(tensors, hint, scale):
    found = recognise("x.weight", (256, 256), tensors, hint)
    assert dict(found.parts)["scale"] == scale
    assert formats.get(found.format).quantised


def test_one_wrong_shape_is_no_other_format():
    """Shapes that fit neither dims nor data leave the format: the proof names the tensor."""
    for data, scale in (((576, 256), (5, 2)), ((576, 256), (6, 2)), ((577, 256), (5, 2))):
        tensors = made(x__weight=("F8_E4M3", *data), x__weight_scale_inv=("F32", *scale))
        assert recognise("x.weight", (576, 256), tensors, FP8).format == "fp8_b128", (data, scale)
    swapped = made(x__weight=("BF16", 576, 256), x__weight_scale_inv=("F32", 5, 2))
    assert recognise("x.weight", (576, 256), swapped).format == "fp8_b128"


def test_the_config_settles_what_shapes_leave_open():
    tensors = made(x__weight=("F8_E4M3", 96, 96), x__weight_scale_inv=("F32", 1, 1))
    small = quant_config({"quantization_config": {"quant_method": "fp8",
                                                  "weight_block_size": [256, 256]}})  # fmt: skip
    assert recognise("x.weight", (96, 96), tensors).format == "fp8_b128"
    assert recognise("x.weight", (96, 96), tensors, small).format == "fp8_b256"
    ragged = made(x__weight_packed=("I32", 64, 25), x__weight_scale=("BF16", 64, 4))
    assert recognise("x.weight", (64, 200), ragged, PACKED).format == "int4_g64"


def test_recognition_is_cheap(seed):
    """A handful of look-ups a plain weight, however large the checkpoint."""
    asked = Counter()

    class Counting(dict):
        def get(self, key, default=None):
            asked["get"] += 1
            return super().get(key, default)

        def __contains__(self, key):
            asked["in"] += 1
            return super().__contains__(key)

    name = f"layers.{random.Random(seed).randrange(99)}.q_proj.weight"
    tensors = Counting({name: TensorHeader("BF16", (8, 8), 0, 0, "")})
    assert recognise(name, (8, 8), tensors).format == "bf16"
    assert sum(asked.values()) <= 12


def test_any_damage_is_still_recognised_as_something(seed):
    """Lost, retyped and misshapen tensors: a known format, and parts that the format has."""
    draw = random.Random(seed)
    hints = [None, FP8, PACKED]
    for turn in range(3000):
        _, name, dims, tensors, _, _ = draw.choice(SPELLINGS)
        tensors = dict(tensors)
        for key in list(tensors):
            shape = tuple(draw.choice((0, 1, 2, 7, 64, 96)) for _ in range(draw.randrange(5)))
            change = draw.random()
            if change < 0.15:
                del tensors[key]
            elif change < 0.3:
                tensors[key] = tensors[key]._replace(dtype=draw.choice(list(DTYPE_BITS)))
            elif change < 0.5:
                tensors[key] = tensors[key]._replace(shape=shape)
        if draw.random() < 0.2:
            dims = tuple(draw.choice((0, 1, 3, 128)) for _ in range(draw.randrange(4)))
        found = recognise(name, dims, tensors, draw.choice(hints))
        described = formats.get(found.format)
        assert described.bytes(dims) >= 0, (seed, turn)
        for part, _ in found.parts:
            assert described.part(part).name == part, (seed, turn)
        unpacked = logical_dims(found, tensors)
        assert unpacked is None or all(isinstance(dim, int) for dim in unpacked), (seed, turn)


def test_39_logical_k_comes_from_the_scale_columns():
    tensors = made(w1__weight_packed=("U8", 3072, 1792), w1__weight_scale=("U8", 3072, 112))
    found = recognise("w1.weight", (3072, 3584), tensors)
    assert found.format == "mxfp4"
    assert logical_dims(found, tensors) == (3072, 112 * 32)
    # A hidden size of twice the packed width's double changes nothing about what is stored.
    assert recognise("w1.weight", (3072, 7168), tensors) == found


def test_96_fp8_blocks_and_the_scale_is_no_parameter():
    tensors = made(down_proj__weight=("F8_E4M3", 7168, 18432),
                   down_proj__weight_scale_inv=("F32", 56, 144))  # fmt: skip
    found = recognise("down_proj.weight", (7168, 18432), tensors)
    assert found.format == "fp8_b128"
    assert math.prod(logical_dims(found, tensors)) == 132_120_576
    assert companion_of("down_proj.weight_scale_inv", tensors) == "down_proj.weight"


@pytest.mark.parametrize("with_zeros", [True, False])
def test_97_packed_int4_has_bits_group_and_true_shape(with_zeros):
    tensors = made(x__qweight=("I32", 11008, 512), x__scales=("F16", 86, 4096))
    if with_zeros:
        tensors |= made(x__qzeros=("I32", 86, 512))
    found = recognise("x.weight", (4096, 11008), tensors)
    assert (found.format, logical_dims(found, tensors)) == ("awq4_g128", (4096, 11008))
    assert dict(found.parts)["zeros"] == "x.qzeros"


def test_99_bf16_that_no_list_excludes_stays_bf16():
    block = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    hint = quant_config({"quantization_config": block})
    name = "mtp.layers.0.mlp.experts.0.up_proj.weight"
    tensors = {name: TensorHeader("BF16", (2048, 4096), 0, 0, "")}
    found = recognise(name, (2048, 4096), tensors, hint)
    assert (found.format, found.parts) == ("bf16", (("data", name),))


@pytest.mark.parametrize("expert_dtype", ["fp4", None])
@pytest.mark.parametrize(
    ("data", "scale", "format_name"),
    [
        (("I8", 2048, 2048), ("F8_E8M0", 2048, 128), "mxfp4"),
        (("F8_E4M3", 2048, 4096), ("F8_E8M0", 16, 32), "fp8_b128_ue8m0"),
    ],
    ids=["fp4", "fp8"],
)
def test_105_the_header_tells_fp4_experts_from_fp8(expert_dtype, data, scale, format_name):
    hint = quant_config({"expert_dtype": expert_dtype, "quantization_config": {
        "quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}})  # fmt: skip
    name = "layers.3.ffn.experts.7.w1.weight"
    tensors = made(**{"layers__3__ffn__experts__7__w1__weight": data,
                      "layers__3__ffn__experts__7__w1__scale": scale})  # fmt: skip
    assert recognise(name, (2048, 4096), tensors, hint).format == format_name


def test_107_the_packed_shape_is_not_the_logical_one():
    tensors = made(w1__weight=("I8", 2048, 2048), w1__scale=("F8_E8M0", 2048, 128))
    found = recognise("w1.weight", (2048, 4096), tensors)
    assert logical_dims(found, tensors) == (2048, 4096)
    assert math.prod(logical_dims(found, tensors)) == 2 * tensors["w1.weight"].elements


@pytest.mark.parametrize(
    "suffix",
    [
        "weight_scale",
        "weight_scale_inv",
        "weight_scale_2",
        "input_scale",
        "scales",
        "qzeros",
        "scale",
    ],
)
def test_109_companions_are_told_by_the_full_suffix(suffix):
    stem = "experts.0.gate_proj"
    lone = {f"{stem}.{suffix}": TensorHeader("F32", (1,), 0, 0, "")}
    assert companion_of(f"{stem}.{suffix}", lone) == ""
    assert not exists(f"{stem}.weight", lone)
    data = {f"{stem}.weight": TensorHeader("F8_E4M3", (8, 8), 0, 0, "")}
    assert companion_of(f"{stem}.{suffix}", lone | data) == f"{stem}.weight"
    assert companion_of(f"{stem}.weight", lone | data) == ""
    assert companion_of(f"{stem}.{suffix}_proj.weight", lone | data) == ""


def test_110_the_header_wins_over_the_exclusion_list():
    hint = quant_config({}, {"quantization": {"quant_algo": "NVFP4", "group_size": 16,
                                              "exclude_modules": ["lm_head*"]}})  # fmt: skip
    tensors = made(lm_head__weight=("U8", 64, 48), lm_head__weight_scale=("F8_E4M3", 64, 6),
                   lm_head__weight_scale_2=("F32",), lm_head__input_scale=("F32",))  # fmt: skip
    found = recognise("lm_head.weight", (64, 96), tensors, hint)
    assert found.format == "nvfp4"
    assert dict(found.parts)["input_scale"] == "lm_head.input_scale"


def test_111_nvfp4_without_any_configuration():
    tensors = made(x__weight=("U8", 64, 48), x__weight_scale=("F8_E4M3", 64, 6),
                   x__weight_scale_2=("F32",))  # fmt: skip
    assert recognise("x.weight", (64, 96), tensors, None).format == "nvfp4"


def test_116_bnb_bytes_are_not_reshaped():
    name = "in_proj_a.weight"
    tensors = {
        name: TensorHeader("U8", (65_536, 1), 0, 0, ""),
        f"{name}.absmax": TensorHeader("F32", (2048,), 0, 0, ""),
        f"{name}.quant_map": TensorHeader("F32", (16,), 0, 0, ""),
        f"{name}.quant_state.bitsandbytes__nf4": TensorHeader("U8", (82,), 0, 0, ""),
    }
    found = recognise(name, (32, 4096), tensors)
    assert found.format == "bnb4"
    assert len(found.parts) == 4
    assert formats.get("bnb4").part("data").fits((32, 4096), (65_536, 1))
    nested = tensors | {
        f"{name}.absmax": TensorHeader("U8", (2048,), 0, 0, ""),
        f"{name}.nested_absmax": TensorHeader("F32", (8,), 0, 0, ""),
        f"{name}.nested_quant_map": TensorHeader("F32", (256,), 0, 0, ""),
    }
    found = recognise(name, (32, 4096), nested)
    assert found.format == "bnb4_nested"
    assert {stored for _, stored in found.parts} == set(nested)


def test_120_a_ragged_last_block_is_recognised():
    tensors = made(kv__weight=("F8_E4M3", 576, 2048), kv__weight_scale_inv=("F32", 5, 16))
    assert recognise("kv.weight", (576, 2048), tensors).format == "fp8_b128"


def test_126_cache_scales_are_listed_by_layer():
    names = ["a.0.self_attn.k_scale", "a.0.self_attn.v_scale", "a.1.self_attn.v_scale",
             "a.2.self_attn.k_proj.k_scale", "a.2.self_attn.v_proj.v_scale",
             "a.2.self_attn.k_proj.weight_scale", "a.3.attn.kv_scale"]  # fmt: skip
    found = {scales.module: scales for scales in kv_scales(names)}
    assert list(found) == ["a.0.self_attn", "a.1.self_attn", "a.2.self_attn", "a.3.attn"]
    assert [scales.lone for scales in found.values()] == ["", "a.1.self_attn.v_scale", "", ""]
    assert dict(found["a.2.self_attn"].parts)["v"] == "a.2.self_attn.v_proj.v_scale"
    tensors = made(p__k_proj__weight=("F8_E4M3", 64, 96), p__k_proj__weight_scale=("F32",),
                   p__k_proj__k_scale=("F32",))  # fmt: skip
    parts = dict(recognise("p.k_proj.weight", (64, 96), tensors).parts)
    assert set(parts.values()) == {"p.k_proj.weight", "p.k_proj.weight_scale"}
