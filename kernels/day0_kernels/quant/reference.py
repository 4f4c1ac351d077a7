"""Definition of FP8 quantisation by tiles of channels.

Sources: OCP Microscaling (MX) v1.0 for E8M0 scales; the two exponent rules are those called
"floor" (OCP) and "rceil" (cuBLAS) in formats of the field. T rows, D channels. An element is
x / scale, clamped to +-448 and rounded to nearest even; NaN stays NaN and does not enter a maximum.
"""

import torch

from day0_kernels.common.plain import widened

FP8_MAX = 448.0
FP8 = torch.float8_e4m3fn
MIN_AMAX = 1e-10  # a tile of zeros gets the scale MIN_AMAX / FP8_MAX
MAX_AMAX = 3.3895313892515355e38  # the largest bf16, so that an infinite |x| has a finite scale
TILE = 128
MX_GROUP = 32
RULES = ("rceil", "floor")


def grouped(x: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(groups of `size` channels [T, D/size, size], padded with 0; their largest |x|)."""
    padded = torch.nn.functional.pad(widened(x), (0, -x.shape[-1] % size))
    groups = padded.unflatten(-1, (-1, size))
    amax = groups.abs().nan_to_num(nan=0.0, posinf=MAX_AMAX).amax(-1)
    return groups, amax


def exponent(amax: torch.Tensor, rule: str) -> torch.Tensor:
    """Biased E8M0 exponent (int32) of the scale for a largest magnitude, read from its bits.

    "rceil": ceil(log2(amax / 448)), nothing saturates. "floor": floor(log2(amax)) - 8, elements
    above 448 times the scale saturate. 448 = 1.75 * 2^8, so they differ for mantissas above 1.75.
    """
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
    bits = amax.float().view(torch.int32)
    up = (bits & 0x7FFFFF) > 0x600000 if rule == "rceil" else torch.zeros_like(bits).bool()
    return ((bits >> 23) - 8 + up).clamp_min(0)


def rounded(x: torch.Tensor) -> torch.Tensor:
    """`x` clamped and rounded to the values of E4M3, in its own dtype."""
    return x.clamp(-FP8_MAX, FP8_MAX).to(FP8).to(x.dtype)


def rows_of(values: torch.Tensor, scale: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    """The values of `values` [T, D] in `dtype`, times the scale of each 128 channels if given."""
    if scale is None:
        return values.to(dtype)
    return values.to(dtype) * scale.to(dtype).repeat_interleave(TILE, -1)[:, : values.shape[1]]


def blocks_of(weight: torch.Tensor, scale: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    """The values of `weight` [..., N, K] in `dtype`, times the scale of each 128 x 128 block."""
    if scale is None:
        return weight.to(dtype)
    spread = scale.to(dtype).repeat_interleave(TILE, -2).repeat_interleave(TILE, -1)
    return weight.to(dtype) * spread[..., : weight.shape[-2], : weight.shape[-1]]


def tile_quantised(
    x: torch.Tensor, power_of_two: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """(q [T, D] in fp32 or fp64, scale [T, ceil(D/128)]) of `quant_tile`."""
    groups, amax = grouped(x, TILE)
    if power_of_two:
        scale = torch.exp2(exponent(amax.clamp_min(MIN_AMAX), "rceil").to(amax.dtype) - 127)
        q = rounded(groups / scale[..., None])
    else:
        amax = amax.clamp_min(MIN_AMAX)
        scale = amax / FP8_MAX
        q = rounded(groups * (FP8_MAX / amax)[..., None])
    return q.flatten(-2)[..., : x.shape[-1]], scale


def quant_tile(
    x: torch.Tensor, q: torch.Tensor, scale: torch.Tensor, *, power_of_two: bool = False
) -> None:
    """Write `q` [T, D] and `scale` fp32 [T, ceil(D/128)] = largest |x| of 128 channels / 448.

    `power_of_two` rounds the scale up to a power of two.
    """
    values, factors = tile_quantised(x, power_of_two)
    q.copy_(values)
    scale.copy_(factors)


def quant_mx(x: torch.Tensor, q: torch.Tensor, scale: torch.Tensor, *, rule: str = "rceil") -> None:
    """Write `q` [T, D] and the E8M0 bytes `scale` uint8 [T, ceil(D/32)], 2^(byte - 127)."""
    groups, amax = grouped(x, MX_GROUP)
    byte = exponent(amax, rule)
    values = rounded(groups * torch.exp2(127 - byte.to(amax.dtype))[..., None])
    q.copy_(values.flatten(-2)[..., : x.shape[-1]])
    scale.copy_(byte)
