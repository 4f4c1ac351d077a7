"""FP8, FP4 and INT8 weights with scale tensors: which spelling, and what one scale covers."""

from itertools import islice

from day0.checkpoint.headers import TensorHeader
from day0.ir import format as formats
from day0.models import stored_integers
from day0.models.stored_look import Look, Stored, fits, stored

BYTES = ("U8", "I8")
# How the scale of data under the weight's own name is spelled, after that name ("x.weight" +
# "_scale_inv", "experts.gate_up_proj" + "_scale_inv"): DeepSeek-V3 and transformers;
# compressed-tensors and ModelOpt; ModelOpt on fused experts (llama4).
AFTER_NAME = ("_scale_inv", "_scale", "_weight_scale")
# After the name without ".weight": DeepSeek-V4; mistral_large4.
AFTER_STEM = (".scale", ".qscale_weight")
BLOCK_SPELLINGS = ("_scale_inv", *AFTER_STEM)
BLOCK_SIZES = (128, 32, 64, 256)
# Tensors looked at to learn how this checkpoint spells a companion that one weight lacks. The
# bound keeps a checkpoint without any companion cheap.
NEIGHBOURS = 4096


def scale_name(look: Look, dtype: str) -> str:
    """The scale tensor of data stored under the weight's own name; "" where there is none.

    A ".scale" beside a tensor of high precision is a parameter of its own unless it is a matrix.
    """
    for suffix in AFTER_NAME:
        if look.name + suffix in look.tensors:
            return look.name + suffix
    for suffix in AFTER_STEM:
        header = look.tensors.get(look.stem + suffix)
        if header is not None and (dtype in formats.FLOAT8 + BYTES or len(header.shape) > 1):
            return look.stem + suffix
    return ""


def scaled(look: Look, header: TensorHeader, scale: str) -> Stored:
    """Data under the weight's own name with a scale beside it."""
    entry = look.tensors[scale]
    second = f"{scale}_2"
    parts = (("data", look.name), ("scale", scale))
    if second in look.tensors or (header.dtype in BYTES and entry.dtype == "F8_E4M3"):
        return stored("nvfp4", *parts, ("global_scale", second))
    if header.dtype in BYTES and entry.dtype in formats.E8M0:
        return stored("mxfp4", *parts)
    if header.dtype in BYTES:
        name = _choose(look, header, entry, ("int8_channel", "int8_tensor"), ("int8", "mxfp4"))
        return stored(name, *parts, *look.part("zeros", ".weight_zero_point"))
    ue8m0 = entry.dtype in formats.E8M0
    blocks = tuple(formats.block_name(size, size, ue8m0=ue8m0) for size in BLOCK_SIZES)
    if ue8m0:
        candidates = ("mxfp8", *blocks)
    elif scale.endswith(BLOCK_SPELLINGS):
        candidates = (*blocks, "fp8_channel", "fp8_tensor")
    else:
        candidates = ("fp8_tensor", "fp8_channel", *blocks)
    return stored(_choose(look, header, entry, candidates, ("fp8", "mxfp8"), ue8m0=ue8m0), *parts)


def packed(look: Look) -> Stored:
    """compressed-tensors "weight_packed": FP4 pairs in bytes, or integers in I32 words."""
    data = look.get(".weight_packed")
    if data is not None and data.dtype == "I32":
        return stored_integers.pack_quantized(look)
    parts = (("data", f"{look.stem}.weight_packed"), ("scale", f"{look.stem}.weight_scale"))
    divisor = ("global_divisor", f"{look.stem}.weight_global_scale")
    scale = look.get(".weight_scale")
    if divisor[1] in look.tensors or (scale is not None and scale.dtype == "F8_E4M3"):
        return stored("nvfp4_ct", *parts, divisor)
    if scale is not None and scale.dtype in formats.E8M0:
        return stored("mxfp4", *parts)
    if look.expected() == "nvfp4_ct":
        return stored("nvfp4_ct", *parts, divisor)
    return stored("mxfp4", *parts)


def unscaled(look: Look, header: TensorHeader) -> Stored:
    """Data whose dtype says "quantised" and that has no scale: named as the neighbours name it.

    F8 always gets a scale, for codes without one are no values; bytes only when the config or the
    neighbours say that such tensors are packed.
    """
    promised = look.expected()
    if promised and promised.startswith("bnb4"):
        return stored_integers.bnb4(look)
    neighbour = _neighbour(look, header.dtype)
    suffix, format_name = neighbour or ("", "")
    if not suffix:
        after = "_scale_inv" if look.hint is None or look.hint.method == "fp8" else "_scale"
        suffix = look.name[len(look.stem) :] + after
    if promised and header.dtype in formats.get(promised).part("data").dtypes:
        format_name = promised
    if not format_name:
        if header.dtype in BYTES:
            return stored(formats.of_dtype(header.dtype), ("data", look.name))
        format_name = "fp8_b128"
    spelled = {
        "data": look.name,
        "scale": look.stem + suffix,
        "global_scale": f"{look.stem}{suffix}_2",
    }
    required = formats.get(format_name).required
    return stored(format_name, *((part.name, spelled[part.name]) for part in required
                                 if part.name in spelled))  # fmt: skip


def packed_around(look: Look) -> bool:
    """Whether the data beside other scales of this spelling stands under "weight_packed"."""
    for name in islice(look.tensors, NEIGHBOURS):
        if name.endswith(".weight_scale"):
            stem = name.removesuffix(".weight_scale")
            if f"{stem}.weight_packed" in look.tensors:
                return True
    return False


def _neighbour(look: Look, dtype: str) -> tuple[str, str] | None:
    """(what follows the stem in the scale's name, format) of another tensor of this dtype."""
    for name, header in islice(look.tensors.items(), NEIGHBOURS):
        if header.dtype != dtype or name == look.name or not header.shape:
            continue
        other = Look(name, name.removesuffix(".weight"), header.shape, look.tensors, look.hint)
        if scale := scale_name(other, dtype):
            return scale.removeprefix(other.stem), scaled(other, header, scale).format
    return None


def _choose(
    look: Look,
    header: TensorHeader,
    scale: TensorHeader,
    candidates: tuple[str, ...],
    kinds: tuple[str, ...],
    *,
    ue8m0: bool = False,
) -> str:
    """The first format whose scale has this shape, what the config promises before all others.

    Asked for the logical dims first, then for the stored ones, so that one wrong shape does not
    look like another format.
    """
    promised = look.expected()
    if promised and promised.startswith("fp8_b"):
        promised = promised.removesuffix("_ue8m0") + ("_ue8m0" if ue8m0 else "")
    if not promised or not promised.startswith(kinds):
        promised = None
    order = (promised, *candidates) if promised else candidates
    for dims in dict.fromkeys((look.dims, header.shape)):
        for candidate in order:
            if fits(candidate, "scale", dims, scale):
                return candidate
    if promised:
        return promised
    shape = scale.shape
    if header.dtype not in BYTES and len(shape) == len(look.dims) > 1 and all(shape):
        rows, columns = look.dims[-2] / shape[-2], look.dims[-1] / shape[-1]
        if rows.is_integer() and columns.is_integer() and rows and columns:
            return formats.block_name(int(rows), int(columns), ue8m0=ue8m0)
    return next((name for name in candidates if name.startswith("fp8_b")), candidates[0])
