"""Which stored tensors really make up a weight: every spelling of quantised checkpoints.

A tensor is quantised iff its companion exists in the headers, or its dtype says so; the config only
settles what shapes leave open. Names are matched by their whole suffix, never by a part of it, and
no decision compares a stored width with a size of the model.
"""

from collections import Counter
from collections.abc import Mapping

from day0.checkpoint.headers import TensorHeader
from day0.ir import format as formats
from day0.models import stored_floats, stored_integers
from day0.models.quant_config import QuantConfig
from day0.models.stored_look import Dims, Look, Stored, Tensors, stored

__all__ = ["Stored", "alternatives", "companion_of", "exists", "logical_dims", "recognise"]

# What a quantised weight may have beside its scales: part, and what follows the stem. Those with
# "_" in front belong to fused experts, whose stem is the whole name.
EXTRAS = (
    ("input_scale", ".input_scale", ".activation_scale", ".input_activation_scale", ".qscale_act",
     ".input_global_scale", "_input_scale", "_activation_scale"),
    ("output_scale", ".output_scale", ".output_activation_scale"),
    ("input_zeros", ".input_zero_point"),
    ("pre_scale", ".pre_quant_scale"),
)  # fmt: skip
# Last components of companions, and what may follow the name of fused experts.
COMPANIONS = frozenset(
    "weight_scale weight_scale_inv weight_scale_2 weight_global_scale weight_shape "
    "weight_zero_point weight_g_idx input_scale input_global_scale input_zero_point "
    "activation_scale input_activation_scale output_activation_scale output_scale qscale_act "
    "qscale_weight scale scales qzeros g_idx pre_quant_scale SCB weight_format absmax quant_map "
    "nested_absmax nested_quant_map bitsandbytes__nf4 bitsandbytes__fp4".split()
)
FUSED_COMPANIONS = ("_scales", "_scale_inv", "_weight_scale", "_weight_scale_2", "_scale_2",
                    "_input_scale", "_activation_scale", "_scale")  # fmt: skip
# Experts looked at to learn how a stack is stored, so that one damaged expert does not decide.
EXPERTS = 4


def recognise(
    name: str,
    dims: Dims,
    tensors: Mapping[str, TensorHeader],
    hint: QuantConfig | None = None,
    *,
    dtype: str = "bf16",
) -> Stored:
    """Which stored tensors make up the weight `name` of logical `dims`, and in which format.

    `name` is the plain name a mechanism writes, with or without ".weight"; "{e}" stands for an
    expert number and comes back in the parts. Where nothing of it exists, the answer is plain, in
    the format `dtype`.
    """
    if "{e}" in name:
        return _of_stack(name, dims, tensors, hint, dtype)
    look = Look(name, name.removesuffix(".weight"), dims, tensors, hint)
    found = _recognise(look, dtype)
    if len(found.parts) == 1:
        return found
    allowed = {part.name for part in formats.get(found.format).parts}
    extras = (look.part(part, *suffixes) for part, *suffixes in EXTRAS if part in allowed)
    return Stored(
        format=found.format, parts=(*found.parts, *(one for some in extras for one in some))
    )


def alternatives(name: str) -> tuple[str, ...]:
    """The stored names under which the data of the weight `name` may stand."""
    stem = name.removesuffix(".weight")
    return name, f"{stem}.weight_packed", f"{stem}.qweight", f"{name}_blocks"


def exists(name: str, tensors: Mapping[str, TensorHeader]) -> bool:
    """Whether the weight is stored in some form; with "{e}", for one of the first experts."""
    if "{e}" in name:
        return any(exists(name.replace("{e}", str(expert)), tensors) for expert in range(EXPERTS))
    return any(candidate in tensors for candidate in alternatives(name))


def companion_of(tensor: str, tensors: Mapping[str, TensorHeader]) -> str:
    """The stored data that a scale, zero point or state belongs to, by its whole suffix.

    "" where `tensor` is none, or where the headers hold nothing that it could belong to.
    """
    stem, _, last = tensor.rpartition(".")
    candidates: list[str] = []
    if last in COMPANIONS:
        stem = stem.removesuffix(".quant_state")
        candidates += (f"{stem}.weight", f"{stem}.weight_packed", f"{stem}.qweight", stem)
    for suffix in FUSED_COMPANIONS:
        if tensor.endswith(suffix):
            fused = tensor.removesuffix(suffix)
            candidates += (fused, f"{fused}_blocks")
    return next((name for name in candidates if name and name in tensors), "")


def logical_dims(found: Stored, tensors: Mapping[str, TensorHeader]) -> Dims | None:
    """Logical dims as the headers tell them, unpacked; None where they cannot be told.

    With 32 elements of a row under one scale, K is 32 times the columns of the scale.
    """
    data = tensors.get(found.data)
    if data is None:
        return None
    scale = tensors.get(dict(found.parts).get("scale", ""))
    if found.format == "mxfp4" and scale is not None and 2 * data.elements == 32 * scale.elements:
        return (*scale.shape[:-1], 32 * scale.shape[-1])
    return formats.get(found.format).unpack(data.shape)


def _recognise(look: Look, dtype: str) -> Stored:
    header = look.tensors.get(look.name)
    if header is not None:
        return _under_own_name(look, header)
    if look.get(".weight_packed") is not None:
        return stored_floats.packed(look)
    if look.get(".qweight") is not None:
        return stored_integers.words(look)
    if f"{look.name}_blocks" in look.tensors:
        return _blocks(look)
    return _without_data(look, dtype)


def _under_own_name(look: Look, header: TensorHeader) -> Stored:
    name = look.name
    scale = stored_floats.scale_name(look, header.dtype)
    if not scale and f"{name}_scale_2" in look.tensors:
        scale = f"{name}_scale"
        return stored("nvfp4", ("data", name), ("scale", scale), ("global_scale", f"{scale}_2"))
    if scale:
        return stored_floats.scaled(look, header, scale)
    if f"{name}.absmax" in look.tensors or f"{name}.quant_map" in look.tensors:
        return stored_integers.bnb4(look)
    if look.stem != name and look.get(".SCB") is not None:
        return stored_integers.bnb8(look)
    narrow = header.dtype in stored_floats.BYTES and len(look.dims) > 1
    if header.dtype in formats.FLOAT8 or narrow:
        return stored_floats.unscaled(look, header)
    return stored(formats.of_dtype(header.dtype), ("data", name))


def _blocks(look: Look) -> Stored:
    """gpt_oss: "experts.gate_up_proj_blocks" and "_scales"."""
    return stored("mxfp4", ("data", f"{look.name}_blocks"), ("scale", f"{look.name}_scales"))


def _without_data(look: Look, dtype: str) -> Stored:
    """Nothing holds values. Companions that are there still tell how they would be stored."""
    if f"{look.name}_scales" in look.tensors:
        return _blocks(look)
    if look.get(".scales") is not None or look.get(".qzeros") is not None:
        return stored_integers.words(look)
    if look.get(".weight_shape") is not None:
        return stored_integers.pack_quantized(look)
    if look.get(".weight_global_scale") is not None:
        return stored_floats.packed(look)
    scale = stored_floats.scale_name(look, dtype)
    if not scale:
        return stored(dtype, ("data", look.name))
    promised = look.expected()
    if scale == f"{look.stem}.weight_scale" and (
        promised in ("mxfp4", "nvfp4_ct") or stored_floats.packed_around(look)
    ):
        return stored_floats.packed(look)
    four_bits = promised is not None and formats.get(promised).bits == 4
    lost = TensorHeader("U8" if four_bits else "F8_E4M3", look.dims, 0, 0, "")
    return stored_floats.scaled(look, lost, scale)


def _of_stack(
    name: str, dims: Dims, tensors: Tensors, hint: QuantConfig | None, dtype: str
) -> Stored:
    """As most of the first whole experts are stored."""
    whole: list[tuple[Stored, str]] = []
    broken: list[tuple[Stored, str]] = []
    for expert in range(EXPERTS):
        concrete = name.replace("{e}", str(expert))
        found = recognise(concrete, dims, tensors, hint, dtype=dtype)
        present = [full in tensors for _, full in found.parts]
        if all(present):
            whole.append((found, concrete))
        elif any(present):
            broken.append((found, concrete))
    usual = Counter(found.format for found, _ in whole).most_common(1)
    chosen = next((one for one in whole if one[0].format == usual[0][0]), None) if usual else None
    if chosen is None and broken:
        chosen = broken[0]
    if chosen is None:
        return stored(dtype, ("data", name))
    found, concrete = chosen
    stem, template = concrete.removesuffix(".weight"), name.removesuffix(".weight")
    parts = ((part, template + full.removeprefix(stem)) for part, full in found.parts)
    return Stored(format=found.format, parts=tuple(parts))
