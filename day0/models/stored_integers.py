"""Weights packed into integer words: AWQ, GPTQ, compressed-tensors pack-quantized, bitsandbytes."""

import re

from day0.checkpoint.headers import TensorHeader
from day0.models.stored_look import Look, Stored, fits, stored

_NAME = re.compile(r"(awq|gptq|int)(\d)_(g\d+|channel)")


def words(look: Look) -> Stored:
    """AWQ and GPTQ, told apart by the columns of qweight: packed outputs, or the outputs as such.

    Bits follow from the packed width, the group size from the rows of the scales.
    """
    data, scale, zeros = look.get(".qweight"), look.get(".scales"), look.get(".qzeros")
    name = _expected(look, ("awq", "gptq"), data, scale) or _derived_words(look, data, scale, zeros)
    parts = (
        ("data", f"{look.stem}.qweight"),
        ("scale", f"{look.stem}.scales"),
        ("zeros", f"{look.stem}.qzeros"),
    )
    index = look.part("group_index", ".g_idx") if name.startswith("gptq") else ()
    return stored(name, *parts, *index)


def _derived_words(
    look: Look, data: TensorHeader | None, scale: TensorHeader | None, zeros: TensorHeader | None
) -> str:
    """From the headers alone where they suffice, else what the config says."""
    fallback = _promise(look, ("awq", "gptq"))
    if data is None or scale is None or min(len(data.shape), len(scale.shape)) < 2:
        if fallback:
            return fallback
        return "gptq4_g128" if look.get(".g_idx") is not None else "awq4_g128"
    outputs, groups = scale.shape[-1], scale.shape[-2]
    if not outputs or not groups:
        return fallback or "awq4_g128"
    indexed = look.get(".g_idx") is not None  # only GPTQ reorders groups
    kind = "gptq" if indexed or data.shape[-1] == outputs else "awq"
    bits = 4
    packed = data if kind == "awq" else zeros
    if packed is not None and packed.shape[-1:] and 32 * packed.shape[-1] % outputs == 0:
        bits = 32 * packed.shape[-1] // outputs
    if bits not in (2, 3, 4, 8):
        return fallback or f"{kind}4_g128"
    inputs = data.shape[-2] if kind == "awq" else data.shape[-2] * 32 // bits
    return f"{kind}{bits}_{_group(inputs, groups)}"


def pack_quantized(look: Look) -> Stored:
    """compressed-tensors: I32 words along the inputs of a row.

    The packed width and the logical row tell the bits, the columns of the scale the group size.
    """
    data, scale = look.get(".weight_packed"), look.get(".weight_scale")
    name = _expected(look, ("int",), data, scale) or _derived_packing(look, data, scale)
    parts = (("data", f"{look.stem}.weight_packed"), ("scale", f"{look.stem}.weight_scale"))
    optional = (
        *look.part("zeros", ".weight_zero_point"),
        *look.part("shape", ".weight_shape"),
        *look.part("group_index", ".weight_g_idx"),
    )
    return stored(name or _promise(look, ("int",)) or "int4_g32", *parts, *optional)


def _derived_packing(
    look: Look, data: TensorHeader | None, scale: TensorHeader | None
) -> str | None:
    """From the headers and the logical row; None where they do not fit together."""
    if data is None or scale is None or not data.shape or not scale.shape:
        return None
    inputs, groups = (look.dims or (0,))[-1], scale.shape[-1]
    widths = (bits for bits in (4, 8, 2, 3) if data.shape[-1] == -(-inputs * bits // 32))
    bits = next(widths, 0)
    if not bits or not inputs or not groups:
        return None
    # Eight bits and one scale a row: "int8_channel" is the form without packing.
    group = f"g{inputs}" if (bits, groups) == (8, 1) else _group(inputs, groups)
    return f"int{bits}_{group}"


def bnb4(look: Look) -> Stored:
    """bitsandbytes 4 bit: the companions hang on the full name, "x.weight.absmax"."""
    name, tensors = look.name, look.tensors
    data, scale = tensors.get(name), tensors.get(f"{name}.absmax")
    nested = f"{name}.nested_absmax" in tensors or (scale is not None and scale.dtype == "U8")
    block = 64
    if data is not None and scale is not None and scale.elements:
        block = max(2 * data.elements // scale.elements, 1)
    parts = [("data", name), ("scale", f"{name}.absmax"), ("code_book", f"{name}.quant_map")]
    if nested:
        parts += [
            ("nested_scale", f"{name}.nested_absmax"),
            ("nested_code_book", f"{name}.nested_quant_map"),
        ]
    states = (f"{name}.quant_state.bitsandbytes__{kind}" for kind in ("nf4", "fp4"))
    parts += [("state", state) for state in states if state in tensors]
    size = "" if block == 64 else f"_b{block}"
    return stored(f"bnb4{size}{'_nested' if nested else ''}", *parts)


def bnb8(look: Look) -> Stored:
    """bitsandbytes LLM.int8: codes under the weight's name and one SCB a row."""
    parts = (("data", look.name), ("scale", f"{look.stem}.SCB"))
    return stored("bnb8", *parts, *look.part("state", ".weight_format"))


def _group(inputs: int, groups: int) -> str:
    return "channel" if groups == 1 else f"g{max(-(-inputs // groups), 1)}"


def _promise(look: Look, kinds: tuple[str, ...]) -> str | None:
    """The config's format if it is of these kinds."""
    name = look.expected()
    found = _NAME.fullmatch(name) if name else None
    return name if found and found.group(1) in kinds else None


def _expected(
    look: Look, kinds: tuple[str, ...], data: TensorHeader | None, scale: TensorHeader | None
) -> str | None:
    """The config's format where the data and the scale bear it out."""
    name = _promise(look, kinds)
    if name and fits(name, "data", look.dims, data) and fits(name, "scale", look.dims, scale):
        return name
    return None
