"""Stored codes and scales -> values, for every format of ir.format that a checkpoint may hold."""

import math
from collections.abc import Callable, Mapping

import torch

from day0.errors import NotSupported
from day0.ir import format as formats

Parts = Mapping[str, torch.Tensor]
# E2M1: sign, two exponent bits, one mantissa bit (OCP MX v1.0, section 5.3.3).
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# Nibble that holds column j of a word's eight (casper-hansen/AutoAWQ, "gemm" packing order).
AWQ_ORDER = [0, 4, 1, 5, 2, 6, 3, 7]


def dequantise(format_name: str, parts: Parts, dims: tuple[int, ...]) -> torch.Tensor:
    """fp32 values [dims]; plain formats come back in their own dtype.

    NotSupported for formats that nobody taught the loader to read.
    """
    data = parts["data"]
    if format_name in formats.PLAIN:
        return data
    kind = _kind(format_name)
    if kind not in _READERS:
        raise NotSupported(
            f"weights stored as {format_name} cannot be read yet (can: {', '.join(_READERS)})",
            hint="dequantise the checkpoint first, or analyze it without running it",
        )
    value = _READERS[kind](format_name, parts, dims)
    if "pre_scale" in parts:  # its users multiply their input with it: the columns may as well
        value = value * parts["pre_scale"].float()
    return value


def e8m0(scale: torch.Tensor) -> torch.Tensor:
    """E8M0 bytes, as F8_E8M0 or as U8: 2^(byte - 127), 255 is NaN."""
    codes = scale.view(torch.uint8).to(torch.int32)
    value = torch.ldexp(torch.ones_like(codes, dtype=torch.float32), codes - 127)
    return torch.where(codes == 255, torch.full_like(value, float("nan")), value)


def _fp8_block(format_name: str, parts: Parts, dims: tuple[int, ...]) -> torch.Tensor:
    rows, columns = _sizes(format_name)
    scale = parts["scale"]
    scale = e8m0(scale) if format_name.endswith("_ue8m0") else scale.float()
    if len(dims) > 1:  # ModelOpt stores [n, 1, k, 1]
        scale = scale.reshape(*dims[:-2], -(-dims[-2] // rows), -(-dims[-1] // columns))
        scale = scale.repeat_interleave(rows, dim=-2).narrow(-2, 0, dims[-2])
    scale = scale.repeat_interleave(columns, dim=-1).narrow(-1, 0, parts["data"].shape[-1])
    return parts["data"].float() * scale


def _sizes(format_name: str) -> tuple[int, int]:
    numbers = format_name.removeprefix("fp8_b").removesuffix("_ue8m0").split("x")
    return int(numbers[0]), int(numbers[-1])


def _per_tensor(scale: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
    """One number for all; in a stack [..., N, K] one for each matrix, or for each half of its
    rows (a fused gate and up projection)."""
    scale, lead = scale.float(), dims[:-2]
    if scale.numel() == 1:
        return scale.reshape(())
    if scale.numel() == math.prod(lead):
        return scale.reshape(*lead, 1, 1)
    return scale.reshape(*lead, 2, 1).repeat_interleave(dims[-2] // 2, dim=-2)


def _fp8_tensor(format_name: str, parts: Parts, dims: tuple[int, ...]) -> torch.Tensor:
    return parts["data"].float() * _per_tensor(parts["scale"], dims)


def _fp8_channel(format_name: str, parts: Parts, dims: tuple[int, ...]) -> torch.Tensor:
    scale = parts["scale"].float()
    if len(dims) > 2 and tuple(scale.shape) == (*dims[:-2], 1, dims[-1]):  # stored [E, in, out]
        return parts["data"].float() * scale
    return parts["data"].float() * scale.reshape(*dims[:-1], 1)


def _mxfp8(format_name: str, parts: Parts, dims: tuple[int, ...]) -> torch.Tensor:
    return parts["data"].float() * e8m0(parts["scale"]).repeat_interleave(32, -1)[..., : dims[-1]]


def nibbles(packed: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
    """E2M1 values of bytes that hold two, the low nibble first."""
    codes = packed.view(torch.uint8).reshape(*dims[:-1], -1)
    codes = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2).long()
    table = torch.tensor((*E2M1, *(-value for value in E2M1)), device=packed.device)
    return table[codes][..., : dims[-1]]


def _mxfp4(format_name: str, parts: Parts, dims: tuple[int, ...]) -> torch.Tensor:
    scale = e8m0(parts["scale"]).repeat_interleave(32, -1)[..., : dims[-1]]
    return nibbles(parts["data"], dims) * scale


def _nvfp4(format_name: str, parts: Parts, dims: tuple[int, ...]) -> torch.Tensor:
    scale = parts["scale"].float().repeat_interleave(16, -1)[..., : dims[-1]]
    if format_name == "nvfp4_ct":
        scale = scale / _per_tensor(parts["global_divisor"], dims)
    else:
        scale = scale * _per_tensor(parts["global_scale"], dims)
    return nibbles(parts["data"], dims) * scale


def _int8(format_name: str, parts: Parts, dims: tuple[int, ...]) -> torch.Tensor:
    """(code - zero) * scale; symmetric where no zeros are stored."""

    def spread(part: torch.Tensor) -> torch.Tensor:
        if format_name == "int8_tensor":
            return _per_tensor(part, dims)
        return part.float().reshape(*dims[:-1], 1)

    codes = parts["data"].float()
    if "zeros" in parts:
        codes = codes - spread(parts["zeros"])
    return codes * spread(parts["scale"])


def words(packed: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    """`count` unsigned integers of `bits` bits from I32 words along the last dim, low bits first;
    where 32 is no multiple of `bits`, an integer may begin in one word and end in the next."""
    start = torch.arange(count, device=packed.device) * bits
    stream = packed.long() & 0xFFFFFFFF
    stream = torch.nn.functional.pad(stream, (0, 1))  # the last integer's next word
    low = stream[..., start // 32] >> start % 32
    high = stream[..., start // 32 + 1] << 32 - start % 32
    return (low | high) & ((1 << bits) - 1)


def _group_of(format_name: str, parts: Parts, inputs: int) -> torch.Tensor:
    """[inputs] number of the group that each input channel belongs to."""
    index = parts.get("group_index")
    if index is not None and bool((index >= 0).all()):  # -1: made, and never used
        return index.long()
    size = format_name.partition("_")[2]
    numbers = torch.arange(inputs, device=parts["data"].device)
    return numbers * 0 if size == "channel" else numbers // int(size.removeprefix("g"))


def _int_packed(format_name: str, parts: Parts, dims: tuple[int, ...]) -> torch.Tensor:
    """[N, K/8] words; scales [N, K/G]. Symmetric ones are stored with half the range added."""
    bits = int(format_name[3])
    codes = words(parts["data"], bits, dims[-1])
    group = _group_of(format_name, parts, dims[-1])
    if "zeros" in parts:
        zeros = words(parts["zeros"].transpose(-1, -2), bits, dims[-2]).transpose(-1, -2)
        codes = codes - zeros[..., group]
    else:
        codes = codes - (1 << (bits - 1))
    return codes.float() * parts["scale"].float()[..., group]


def _awq(format_name: str, parts: Parts, dims: tuple[int, ...]) -> torch.Tensor:
    """[K, N/8] words; value = (code - zero) * scale, groups along K."""
    if not format_name.startswith("awq4"):
        raise NotSupported(
            f"weights stored as {format_name} cannot be read: AWQ packs 4 bits",
            hint="dequantise the checkpoint first, or analyze it without running it",
        )

    def unpack(packed: torch.Tensor) -> torch.Tensor:
        codes = words(packed, 4, packed.shape[-1] * 8)
        return codes.unflatten(-1, (-1, 8))[..., AWQ_ORDER].flatten(-2)

    group = _group_of(format_name, parts, dims[-1])
    codes, zeros = unpack(parts["data"]), unpack(parts["zeros"])[..., group, :]
    return ((codes - zeros).float() * parts["scale"].float()[..., group, :]).transpose(-1, -2)


def _gptq(format_name: str, parts: Parts, dims: tuple[int, ...]) -> torch.Tensor:
    """[K/8, N] words; zeros are stored less one; `group_index` names each input's group."""
    bits = int(format_name[4])
    codes = words(parts["data"].transpose(-1, -2), bits, dims[-1])  # [N, K]
    zeros = words(parts["zeros"], bits, dims[-2]) + 1  # [K/G, N]
    group = _group_of(format_name, parts, dims[-1])
    scale = parts["scale"].float()
    return (codes - zeros[group].transpose(-1, -2)).float() * scale[group].transpose(-1, -2)


def _kind(format_name: str) -> str:
    """The reader's name: the format's without its sizes."""
    if format_name in ("int8_tensor", "int8_channel"):  # the others are packed into words
        return "int8"
    for prefix in ("fp8_b", "nvfp4", "int", "awq", "gptq"):
        if format_name.startswith(prefix):
            return prefix
    return format_name


_READERS: dict[str, Callable[[str, Parts, tuple[int, ...]], torch.Tensor]] = {
    "fp8_b": _fp8_block,
    "fp8_tensor": _fp8_tensor,
    "fp8_channel": _fp8_channel,
    "mxfp8": _mxfp8,
    "mxfp4": _mxfp4,
    "nvfp4": _nvfp4,
    "int8": _int8,
    "int": _int_packed,
    "awq": _awq,
    "gptq": _gptq,
}
