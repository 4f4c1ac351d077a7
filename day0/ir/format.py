"""The one table of storage formats: stored parts and shapes, bytes, borders of a cut.

Proof, memory, loader, caches, split legality and refusals all ask `get(name)`. See format_parts for
what a Format is.
"""

import math
import re
from collections.abc import Callable
from functools import lru_cache

from day0.ir.format_parts import (
    PLAIN,
    Dims,
    Format,
    Part,
    Shapes,
    any_shape,
    blocks,
    channel,
    groups,
    input_channels,
    matrices,
    pairs,
    pairs_or_blocks,
    same,
    scalar,
    twice,
    unpacked,
)

__all__ = [
    "PLAIN",
    "Dims",
    "Format",
    "Part",
    "block_name",
    "e8m0_value",
    "get",
    "is_known",
    "known_names",
    "of_dtype",
]

_NAMES = {dtype: name for name, (dtype, _) in PLAIN.items()}
FLOAT_SCALES = ("F32", "BF16", "F16")
E8M0 = ("F8_E8M0", "U8")  # U8 is how compressed-tensors and gpt_oss write the same byte
FLOAT8 = ("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ")
PACKED_FP4 = ("U8", "I8")


def get(name: str) -> Format:
    """The format called `name`; ValueError listing the known names for any other."""
    found = _get(name)
    if found is None:
        raise ValueError(f"unknown format {name!r}; known: {', '.join(known_names())}")
    return found


def is_known(name: str) -> bool:
    """Whether `get` has a format of this name."""
    return _get(name) is not None


def known_names() -> tuple[str, ...]:
    """All fixed names, then the families of names as patterns."""
    return (*PLAIN, *_FIXED, *(spelling for _, spelling, _ in _FAMILIES))


def of_dtype(dtype: str) -> str:
    """Name of the plain format with this safetensors dtype; ValueError for an unknown dtype."""
    if dtype not in _NAMES:
        raise ValueError(f"unknown dtype {dtype!r}; known: {', '.join(_NAMES)}")
    return _NAMES[dtype]


def block_name(rows: int, columns: int, *, ue8m0: bool = False) -> str:
    """Name of the FP8 format with one scale for `rows` x `columns` elements."""
    size = f"{rows}" if rows == columns else f"{rows}x{columns}"
    return f"fp8_b{size}{'_ue8m0' if ue8m0 else ''}"


def e8m0_value(byte: int) -> float:
    """Value of an E8M0 scale byte: 2^(byte - 127), NaN for 255 (OCP MX v1.0)."""
    if not 0 <= byte <= 255:
        raise ValueError(f"an E8M0 byte is 0 to 255, not {byte}")
    return math.nan if byte == 255 else math.ldexp(1.0, byte - 127)


# Companions that any quantised weight may have: a static scale of its input or output, and the
# smoothing vector that ModelOpt's AWQ variants multiply the input with.
_ACTIVATION = (
    Part(name="input_scale", dtypes=FLOAT_SCALES, shapes=any_shape, optional=True),
    Part(name="output_scale", dtypes=FLOAT_SCALES, shapes=any_shape, optional=True),
    Part(name="input_zeros", dtypes=("I8", "U8", "I32"), shapes=any_shape, optional=True),
    Part(name="pre_scale", dtypes=("BF16", "F16", "F32"), shapes=input_channels, optional=True),
)
_F8 = Part(name="data", dtypes=FLOAT8, shapes=same)
_I8 = Part(name="data", dtypes=("I8",), shapes=same)
_ZEROS8 = Part(name="zeros", dtypes=("I8", "U8"), shapes=any_shape, optional=True)


def _scale(shapes: Shapes, dtypes: tuple[str, ...] = FLOAT_SCALES) -> Part:
    return Part(name="scale", dtypes=dtypes, shapes=shapes)


def _nvfp4(name: str, second: str) -> Format:
    """E2M1 pairs, one E4M3 scale for 16 of a row, one FP32 number for the tensor.

    ModelOpt multiplies with that number (weight_scale_2), compressed-tensors divides by it
    (weight_global_scale; compressors/nvfp4/helpers.py of 0.20): two formats, never mixed up.
    """
    parts = (
        Part(name="data", dtypes=PACKED_FP4, shapes=pairs),
        _scale(groups(16), ("F8_E4M3",)),
        Part(name=second, dtypes=("F32",), shapes=scalar),
        *_ACTIVATION,
    )
    words = "16 of a row, and the tensor"
    return Format(name=name, bits=4, parts=parts, granularity=words, cuts=(16, 1), unpack=twice)


def _fp8(name: str, scale: Part, words: str, cuts: tuple[int, int] = (1, 1)) -> Format:
    return Format(name=name, bits=8, parts=(_F8, scale, *_ACTIVATION), granularity=words, cuts=cuts)


def _mxfp4() -> Format:
    """OCP MX v1.0. Stored as [N, K/2] (compressed-tensors, DeepSeek-V4) or in blocks of 16 bytes
    (gpt_oss): 32 consecutive inputs share one E8M0 byte; no global scale, no zero point."""
    data = Part(name="data", dtypes=PACKED_FP4, shapes=pairs_or_blocks)
    parts = (data, _scale(groups(32), ("U8", "F8_E8M0")), *_ACTIVATION)
    return Format(
        name="mxfp4", bits=4, parts=parts, granularity="32 of a row", cuts=(32, 1), unpack=twice
    )


def _int8(name: str, shapes: Shapes, words: str) -> Format:
    """compressed-tensors "int-quantized" (compressors/naive_quantized)."""
    parts = (_I8, _scale(shapes), _ZEROS8, *_ACTIVATION)
    return Format(name=name, bits=8, parts=parts, granularity=words)


def _bnb8() -> Format:
    """bitsandbytes LLM.int8: value = code * SCB / 127 (nn/modules.py, Int8Params)."""
    scale = _scale(lambda dims: (dims[:-1],), ("F32",))
    state = Part(name="state", dtypes=("U8",), shapes=any_shape, optional=True)
    return Format(name="bnb8", bits=8, parts=(_I8, scale, state), granularity="an output row")


_FIXED: dict[str, Callable[[], Format]] = {
    "fp8_tensor": lambda: _fp8("fp8_tensor", _scale(scalar), "the tensor"),
    "fp8_channel": lambda: _fp8("fp8_channel", _scale(channel), "an output row"),
    # OCP MX v1.0 section 5; compressed-tensors "mxfp8-quantized" writes the scales as U8.
    "mxfp8": lambda: _fp8("mxfp8", _scale(groups(32), ("U8", "F8_E8M0")), "32 of a row", (32, 1)),
    "mxfp4": _mxfp4,
    "nvfp4": lambda: _nvfp4("nvfp4", "global_scale"),
    "nvfp4_ct": lambda: _nvfp4("nvfp4_ct", "global_divisor"),
    "int8_tensor": lambda: _int8("int8_tensor", scalar, "the tensor"),
    "int8_channel": lambda: _int8("int8_channel", channel, "an output row"),
    "bnb8": _bnb8,
}


def _fp8_block(rows: str, columns: str | None, ue8m0: str | None) -> Format | None:
    """DeepSeek-V3's weight_block_size (config.json, quantization_config); V4 stores the scales as
    E8M0 bytes, V4.1 with blocks of 32 x 32."""
    n, k = int(rows), int(columns or rows)
    if not n or not k or columns == rows:
        return None
    scale = _scale(blocks(n, k), E8M0 if ue8m0 else FLOAT_SCALES)
    name = block_name(n, k, ue8m0=bool(ue8m0))
    return _fp8(name, scale, f"a block of {n} x {k}", (k, n))


def _fp8_tile(size: str) -> Format | None:
    """A cache entry: one FP32 scale for each `size` of the last dim (FlashMLA's fp8_ds_mla and the
    index keys of DeepSeek-V3.2 with 128)."""
    tile = int(size)
    if not tile:
        return None
    scale = _scale(groups(tile), ("F32",))
    words = f"{tile} of a token and head"
    parts = (Part(name="data", dtypes=("F8_E4M3",), shapes=same), scale)
    return Format(name=f"fp8_t{tile}", bits=8, parts=parts, granularity=words, cuts=(tile, 1))


def _group_size(group: str) -> int:
    """Elements under one scale, 0 for a whole row ("channel")."""
    return 0 if group == "channel" else int(group.removeprefix("g"))


def _integer(kind: str, bits: str, group: str) -> Format | None:
    """Integers packed into I32 words: AWQ along the outputs ([K, N/8], casper-hansen/AutoAWQ
    "gemm"), GPTQ along the inputs ([K/8, N], AutoGPTQ), compressed-tensors "pack-quantized" along
    the inputs of a row ([N, K/8]). Scales of the first two are [K/G, N], of the third [N, K/G]."""
    width, size = int(bits), _group_size(group)
    if width not in (2, 3, 4, 5, 6, 7, 8) or (group != "channel" and not size):
        return None
    words = "an output row" if not size else f"{size} inputs of a row"
    pack = 32 // math.gcd(32, width)  # elements after which a new word begins

    def packed(count: int) -> int:
        return -(-count * width // 32)

    def count(inputs: int) -> int:
        return -(-inputs // size) if size else 1

    index = Part(name="group_index", dtypes=("I32",), shapes=input_channels, optional=True)
    inputs_cut = math.lcm(size or 1, pack)
    if kind == "int":
        data = matrices(lambda n, k: (n, packed(k)))
        scale = matrices(lambda n, k: (n, count(k)))
        zeros = matrices(lambda n, k: (packed(n), count(k)))
        shape = Part(
            name="shape", dtypes=("I64", "I32"), shapes=lambda d: ((len(d),),), optional=True
        )
        rest = (Part(name="zeros", dtypes=("I32",), shapes=zeros, optional=True), shape, index)
        unpack, cuts = (lambda rows, columns: (rows, columns * 32 // width)), (inputs_cut, 1)
    else:
        scale = matrices(lambda n, k: (count(k), n))
        zeros = matrices(lambda n, k: (count(k), packed(n)))
        rest = (Part(name="zeros", dtypes=("I32",), shapes=zeros),)
        if kind == "awq":
            data = matrices(lambda n, k: (k, packed(n)))
            unpack, cuts = (lambda rows, columns: (columns * 32 // width, rows)), (size or 1, pack)
        else:
            data = matrices(lambda n, k: (packed(k), n))
            unpack, cuts = (lambda rows, columns: (columns, rows * 32 // width)), (inputs_cut, pack)
            rest = (*rest, index)
    parts = (
        Part(name="data", dtypes=("I32",), shapes=data),
        _scale(scale, ("F16", "BF16", "F32")),
        *rest,
        *(_ACTIVATION if kind == "int" else ()),
    )
    name = f"{kind}{width}_{group}"
    return Format(
        name=name, bits=width, parts=parts, granularity=words, cuts=cuts, unpack=unpacked(unpack)
    )


def _bnb4(size: str | None, nested: str | None) -> Format | None:
    """bitsandbytes 4 bit (functional.py, quantize_4bit): all elements in one row of bytes [n/2, 1],
    blocks of 64 elements in storage order, an FP32 absmax for each; "nested": the absmax are bytes
    themselves, 256 under one FP32 number. The code book and the state travel along."""
    block = int(size or 64)
    if not block or size == "64":
        return None

    def count(dims: Dims) -> int:
        return -(-math.prod(dims) // block)

    data: Shapes = lambda d: ((-(-math.prod(d) // 2), 1),)
    code: Shapes = lambda d: ((16,),)
    parts = [
        Part(name="data", dtypes=("U8",), shapes=data),
        _scale(lambda d: ((count(d),),), ("U8",) if nested else ("F32",)),
        Part(name="code_book", dtypes=("F32",), shapes=code),
        Part(name="state", dtypes=("U8",), shapes=any_shape, optional=True),
    ]
    if nested:
        above: Shapes = lambda d: ((-(-count(d) // 256),),)
        parts.insert(2, Part(name="nested_scale", dtypes=("F32",), shapes=above))
        parts.insert(3, Part(name="nested_code_book", dtypes=("F32",), shapes=lambda d: ((256,),)))
    cut = block * 256 if nested else block
    name = f"bnb4{f'_b{block}' if block != 64 else ''}{'_nested' if nested else ''}"
    return Format(
        name=name, bits=4, parts=tuple(parts), granularity=f"{block} in storage order",
        cuts=(cut, cut), unpack=lambda shape: None,
    )  # fmt: skip


_FAMILIES: tuple[tuple[re.Pattern[str], str, Callable[..., Format | None]], ...] = (
    (re.compile(r"fp8_b([1-9]\d*)(?:x([1-9]\d*))?(_ue8m0)?"), "fp8_b{N}[x{K}][_ue8m0]", _fp8_block),
    (re.compile(r"fp8_t([1-9]\d*)"), "fp8_t{T}", _fp8_tile),
    (re.compile(r"(awq|gptq|int)(\d)_(g[1-9]\d*|channel)"), "{awq|gptq|int}{bits}_g{G}", _integer),
    (re.compile(r"bnb4(?:_b([1-9]\d*))?(_nested)?"), "bnb4[_b{B}][_nested]", _bnb4),
)


@lru_cache(maxsize=512)
def _get(name: str) -> Format | None:
    if name in PLAIN:
        dtype, bits = PLAIN[name]
        return Format(
            name=name, bits=bits, parts=(Part(name="data", dtypes=(dtype,), shapes=same),)
        )
    if name in _FIXED:
        return _FIXED[name]()
    for pattern, _, make in _FAMILIES:
        if found := pattern.fullmatch(name):
            made = make(*found.groups())
            return made if made is not None and made.name == name else None
    return None
