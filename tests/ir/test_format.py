"""Storage formats: packed shapes and bytes against real header listings and numbers by hand."""

import math
import random

import pytest

from day0.checkpoint.headers import DTYPE_BITS
from day0.ir import format as formats
from tests import corpus as corpus_place
from tests import listing

KI = 1024

# name, logical dims, part -> (dtype, stored shape), bytes of the required parts
BY_HAND = [
    ("bf16", (3, 5), {"data": ("BF16", (3, 5))}, 30),
    ("fp32", (), {"data": ("F32", ())}, 4),
    ("bool", (7,), {"data": ("BOOL", (7,))}, 7),
    ("fp4_e2m1", (3, 5), {"data": ("F4", (3, 5))}, 8),
    ("fp8_e4m3", (3, 5), {"data": ("F8_E4M3", (3, 5))}, 15),
    ("fp8_tensor", (64, 96), {"scale": ("F32", ())}, 64 * 96 + 4),
    ("fp8_tensor", (8, 64, 96), {"scale": ("F32", (8, 1, 1))}, 8 * 64 * 96 + 32),
    ("fp8_channel", (64, 96), {"scale": ("F32", (64, 1))}, 64 * 96 + 256),
    ("fp8_b128", (576, 7168), {"scale": ("F32", (5, 56))}, 576 * 7168 + 5 * 56 * 4),
    ("fp8_b128_ue8m0", (512, 4096), {"scale": ("F8_E8M0", (4, 32))}, 2 * KI * KI + 128),
    ("fp8_b32_ue8m0", (64, 80), {"scale": ("F8_E8M0", (2, 3))}, 64 * 80 + 6),
    ("fp8_b64x32", (100, 100), {"scale": ("F32", (2, 4))}, 10_000 + 32),
    ("fp8_t128", (4, 512), {"scale": ("F32", (4, 4))}, 4 * 528),
    ("mxfp8", (10, 64), {"scale": ("U8", (10, 2))}, 640 + 20),
    ("mxfp4", (3072, 3584), {"data": ("U8", (3072, 1792)), "scale": ("U8", (3072, 112))},
     5_849_088),
    ("nvfp4", (10, 64), {"data": ("U8", (10, 32)), "scale": ("F8_E4M3", (10, 4)),
                         "global_scale": ("F32", ())}, 320 + 40 + 4),
    ("nvfp4_ct", (10, 64), {"global_divisor": ("F32", ())}, 320 + 40 + 4),
    ("int8_channel", (10, 64), {"scale": ("F32", (10, 1))}, 640 + 40),
    ("int8_tensor", (10, 64), {"scale": ("F32", ())}, 640 + 4),
    ("bnb8", (10, 64), {"scale": ("F32", (10,))}, 640 + 40),
    ("awq4_g128", (4096, 11008), {"data": ("I32", (11008, 512)), "scale": ("F16", (86, 4096)),
                                  "zeros": ("I32", (86, 512))}, 22_544_384 + 704_512 + 176_128),
    ("gptq4_g128", (4096, 11008), {"data": ("I32", (1376, 4096)), "scale": ("F16", (86, 4096)),
                                   "zeros": ("I32", (86, 512)), "group_index": ("I32", (11008,))},
     22_544_384 + 704_512 + 176_128),
    ("gptq8_channel", (64, 256), {"data": ("I32", (64, 64)), "scale": ("F16", (1, 64)),
                                  "zeros": ("I32", (1, 16))}, 16_384 + 128 + 64),
    ("gptq3_g32", (64, 256), {"data": ("I32", (24, 64))}, 24 * 64 * 4 + 8 * 64 * 2 + 8 * 6 * 4),
    ("int4_g32", (64, 256), {"data": ("I32", (64, 32)), "scale": ("F16", (64, 8)),
                             "shape": ("I64", (2,)), "zeros": ("I32", (8, 8))}, 8192 + 1024),
    ("int4_channel", (64, 250), {"data": ("I32", (64, 32)), "scale": ("F16", (64, 1))}, 8192 + 128),
    ("bnb4", (32, 4096), {"data": ("U8", (65_536, 1)), "scale": ("F32", (2048,)),
                          "code_book": ("F32", (16,))}, 65_536 + 8192 + 64),
    ("bnb4_nested", (32, 4096), {"scale": ("U8", (2048,)), "nested_scale": ("F32", (8,)),
                                 "nested_code_book": ("F32", (256,))}, 65_536 + 2048 + 32 + 1088),
    ("bnb4_b128", (32, 4096), {"scale": ("F32", (1024,))}, 65_536 + 4096 + 64),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "dims", "parts", "total"), BY_HAND, ids=[f"{row[0]}-{len(row[1])}d" for row in BY_HAND]
)
def test_numbers_by_hand(name, dims, parts, total):
    found = formats.get(name)
    assert found.name == name
    for part, (dtype, shape) in parts.items():
        assert (found.part(part).dtypes[0], found.part(part).shape(dims)) == (dtype, shape)
        assert found.part(part).fits(dims, shape)
    assert found.bytes(dims) == total
    assert found.quantised == (name not in formats.PLAIN)


# companion of the data in a listing: suffix after the data's stem, data's own suffix, format
PAIRS = [
    (".weight_scale_inv", ".weight", "fp8_b128", lambda data, scale: data),
    (".scale", ".weight", "fp8_b128_ue8m0", lambda data, scale: data),
    (".weight_scale", ".weight_packed", "mxfp4", lambda d, scale: (*d[:-1], 32 * scale[-1])),
    ("_scales", "_blocks", "mxfp4", lambda data, scale: (*data[:-2], 32 * data[-2])),
    (".scales", ".qweight", "awq4_g128", lambda data, scale: (scale[-1], data[0])),
]


@pytest.mark.parametrize("name", corpus_place.names("headers", ".tsv"))
def test_every_quantised_pair_of_a_listing(corpus, name):
    rows = {row.pattern: row for row in listing.rows(corpus / "headers" / f"{name}.tsv")}
    checked = set()
    for scale in rows.values():
        for suffix, data_suffix, format_name, logical in PAIRS:
            stem = scale.pattern.removesuffix(suffix)
            data = rows.get(stem + data_suffix)
            if stem == scale.pattern or data is None:
                continue
            if data.dtype == "I8":
                format_name, logical = "mxfp4", lambda d, s: (*d[:-1], 2 * d[-1])
            found = formats.get(format_name)
            dims = logical(data.shape, scale.shape)
            assert found.part("data").fits(dims, data.shape), data.pattern
            assert found.part("scale").fits(dims, scale.shape), scale.pattern
            assert data.dtype in found.part("data").dtypes, data.pattern
            assert scale.dtype in found.part("scale").dtypes, scale.pattern
            zeros = rows.get(f"{stem}.qzeros")
            stored = data.bytes + scale.bytes + (zeros.bytes if zeros else 0)
            assert found.bytes(dims) == stored, data.pattern
            checked |= {data.pattern, scale.pattern}
    narrow = {
        row.pattern for row in rows.values() if row.dtype in ("F8_E4M3", "F8_E8M0", "U8", "I8")
    }
    assert narrow <= checked
    expected = {"TheBloke__Llama-2-7B-AWQ": 14, "deepseek-ai__DeepSeek-V3.2": 32,
                "deepseek-ai__DeepSeek-V4-Flash-0731": 48, "moonshotai__Kimi-K3": 6,
                "openai__gpt-oss-20b": 4}  # fmt: skip
    assert len(checked) == expected.get(name, 0)


def test_borders():
    cuts = {name: (formats.get(name).borders(0), formats.get(name).borders(1)) for name in (
        "bf16", "fp8_tensor", "fp8_b128", "fp8_b64x32", "mxfp8", "mxfp4", "nvfp4", "awq4_g128",
        "gptq4_g128", "gptq8_g128", "int4_g32", "int4_channel", "fp8_t128", "bnb4")}  # fmt: skip
    assert cuts == {
        "bf16": (1, 1), "fp8_tensor": (1, 1), "fp8_b128": (128, 128), "fp8_b64x32": (64, 32),
        "mxfp8": (1, 32), "mxfp4": (1, 32), "nvfp4": (1, 16), "awq4_g128": (8, 128),
        "gptq4_g128": (8, 128), "gptq8_g128": (4, 128), "int4_g32": (1, 32),
        "int4_channel": (1, 8), "fp8_t128": (1, 128), "bnb4": (64, 64),
    }  # fmt: skip
    block = formats.get("fp8_b128")
    assert [block.borders(dim, 3) for dim in (0, 1, 2, -1, -3)] == [1, 128, 128, 128, 1]


@pytest.mark.parametrize("name", ["fp8_b128", "mxfp4", "nvfp4", "int4_g32", "awq4_g64", "mxfp8"])
def test_cuts_at_borders_add_up(name, seed):
    """Pieces cut at borders hold the bytes of the whole, but for numbers the whole has once."""
    draw = random.Random(seed)
    found = formats.get(name)
    once = sum(part.bytes((8, 8)) for part in found.required if part.shape((8, 8)) == ())
    for dim in (0, 1):
        step = math.lcm(found.borders(dim), 2)
        dims = [draw.randrange(1, 4) * 256, draw.randrange(1, 4) * 256]
        cut = draw.randrange(1, dims[dim] // step) * step
        pieces = [list(dims), list(dims)]
        pieces[0][dim], pieces[1][dim] = cut, dims[dim] - cut
        total = sum(found.bytes(tuple(piece)) for piece in pieces)
        assert total == found.bytes(tuple(dims)) + once, (seed, dims, dim, cut)


@pytest.mark.parametrize(
    ("name", "stored", "logical"),
    [
        ("bf16", (3, 5), (3, 5)),
        ("mxfp4", (2048, 2048), (2048, 4096)),
        ("awq4_g128", (11008, 512), (4096, 11008)),
        ("gptq4_g128", (1376, 4096), (4096, 11008)),
        ("int4_g32", (64, 32), (64, 256)),
        ("bnb4", (65_536, 1), None),
    ],
)
def test_unpack(name, stored, logical):
    assert formats.get(name).unpack(stored) == logical


def test_a_stack_passes_through():
    found = formats.get("fp8_b128")
    assert found.part("scale").shape((8, 576, 256)) == (8, 5, 2)
    assert formats.get("mxfp4").part("data").fits((32, 5760, 2880), (32, 5760, 90, 16))
    assert formats.get("mxfp4").bytes((32, 5760, 2880)) == 265_420_800 + 16_588_800
    assert formats.get("fp8_tensor").part("scale").fits((8, 64, 64), (8, 2, 1))


def test_plain_formats_know_every_dtype():
    assert dict(formats.PLAIN.values()) == dict(DTYPE_BITS)
    for name, (dtype, _) in formats.PLAIN.items():
        assert formats.of_dtype(dtype) == name


@pytest.mark.parametrize(
    "name",
    ["", "bf17", "fp8_b", "fp8_b0", "fp8_b128x128", "awq4", "awq9_g128", "int4_g0", "bnb4_b64"],
)
def test_unknown_names_list_the_known(name):
    with pytest.raises(ValueError, match=r"unknown format .*bf16.*fp8_b\{N\}"):
        formats.get(name)


def test_unknown_part_and_dtype():
    with pytest.raises(ValueError, match="it has: data, scale"):
        formats.get("fp8_b128").part("zeros")
    with pytest.raises(ValueError, match="F128"):
        formats.of_dtype("F128")


def test_104_e8m0_bytes_are_powers_of_two():
    assert [formats.e8m0_value(byte) for byte in (120, 127, 128, 254, 0)] == [
        0.0078125, 1.0, 2.0, 2.0**127, 2.0**-127]  # fmt: skip
    assert math.isnan(formats.e8m0_value(255))
    with pytest.raises(ValueError, match="256"):
        formats.e8m0_value(256)


def test_120_the_last_block_is_ragged():
    scale = formats.get(formats.block_name(128, 128)).part("scale")
    assert scale.shape((576, 2048)) == (5, 16)
    assert not scale.fits((576, 2048), (4, 16))
