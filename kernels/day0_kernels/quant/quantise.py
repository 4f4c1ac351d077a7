"""FP8 quantisation by tiles of channels. Letters: BG groups of a program, G channels of a group."""

import torch
import triton
import triton.language as tl

from day0_kernels.common.arguments import check_choice, check_shape
from day0_kernels.quant.launch import QuantLaunch, quant_launch
from day0_kernels.quant.reference import MX_GROUP, RULES, TILE

FP8_MAX = tl.constexpr(448.0)
MIN_AMAX = tl.constexpr(1e-10)
MAX_AMAX = tl.constexpr(3.3895313892515355e38)


@triton.jit
def exponent(amax, CEIL: tl.constexpr):
    """Biased exponent of the power-of-two scale, from the bits of `amax`; see reference.py."""
    bits = amax.to(tl.int32, bitcast=True)
    byte = (bits >> 23) - 8
    if CEIL:
        byte += ((bits & 0x7FFFFF) > 0x600000).to(tl.int32)
    return tl.maximum(byte, 0)


@triton.jit
def to_fp8(x, ROUND: tl.constexpr):
    """`x` clamped to what E4M3 holds and converted; NaN stays NaN.

    ROUND (on the interpreter, whose conversion loses the carry into the exponent): to nearest
    even beforehand, 3 bits of mantissa, and steps of 2^-9 below the least normal number 2^-6.
    """
    x = tl.where(x == x, tl.minimum(tl.maximum(x, -FP8_MAX), FP8_MAX), x)
    if ROUND:
        bits = x.to(tl.int32, bitcast=True)
        normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) & -0x100000).to(tl.float32, bitcast=True)
        small = (x + 24576.0) - 24576.0
        x = tl.where(tl.abs(x) >= 0.015625, normal, tl.where(x == x, small, x))
    return x.to(tl.float8e4nv)


@triton.jit
def largest(x):
    """Largest finite magnitude along dim 1; NaN does not count."""
    return tl.minimum(tl.max(tl.where(x == x, tl.abs(x), 0.0), axis=1), MAX_AMAX)


@triton.jit
def tile_scale(amax, POWER: tl.constexpr):
    """(scale, factor for the elements) of fp32 scales; POWER: rounded up to a power of two."""
    amax = tl.maximum(amax, MIN_AMAX)
    scale = amax / FP8_MAX
    factor = FP8_MAX / amax
    if POWER:
        byte = exponent(amax, True)
        scale = (byte << 23).to(tl.float32, bitcast=True)
        factor = ((254 - byte) << 23).to(tl.float32, bitcast=True)
    return scale, factor


@triton.jit
def quantise_kernel(
    x, q, scale, num_groups, D, per_row, stride_x, stride_q, stride_scale,
    BG: tl.constexpr, G: tl.constexpr, EVEN: tl.constexpr, MX: tl.constexpr, CEIL: tl.constexpr,
    POWER: tl.constexpr, ROUND: tl.constexpr,
):  # fmt: skip
    """Grid (groups / BG,). MX: `scale` is the E8M0 byte."""
    # groups are counted in 32 bits (2^31 of them hold 2^36 elements), rows addressed in 64
    o_g = tl.program_id(0) * BG + tl.arange(0, BG)
    row = (o_g // per_row).to(tl.int64)
    at = o_g % per_row
    column = at[:, None] * G + tl.arange(0, G)[None, :]
    m_g = o_g < num_groups
    mask = m_g[:, None]
    if not EVEN:
        mask = mask & (column < D)
    b_x = tl.load(x + row[:, None] * stride_x + column, mask=mask, other=0.0).to(tl.float32)
    amax = largest(b_x)
    if MX:
        byte = exponent(amax, CEIL)
        # at most 247, so the inverse 2^(127 - byte) is a normal number
        factor = ((254 - byte) << 23).to(tl.float32, bitcast=True)
        tl.store(scale + row * stride_scale + at, byte.to(tl.uint8), mask=m_g)
    else:
        factor_of, factor = tile_scale(amax, POWER)
        tl.store(scale + row * stride_scale + at, factor_of, mask=m_g)
    tl.store(q + row[:, None] * stride_q + column, to_fp8(b_x * factor[:, None], ROUND), mask=mask)


def launch(
    x: torch.Tensor, q: torch.Tensor, scale: torch.Tensor, *, group: int, mx: bool, ceil: bool,
    power_of_two: bool, config: QuantLaunch | None = None,
) -> None:  # fmt: skip
    """Check, choose and start the kernel; the sweep passes its own `config`."""
    rows, channels = x.shape
    per_row = triton.cdiv(channels, group)
    check_shape("x", x, "T, D", (rows, channels))
    check_shape("q", q, "T, D", (rows, channels))
    check_shape("scale", scale, f"T, D/{group}", (rows, per_row))
    if q.dtype != torch.float8_e4m3fn:
        raise ValueError(f"q must be torch.float8_e4m3fn, got {q.dtype}")
    if rows == 0:
        return
    config = config or quant_launch(num_groups=rows * per_row, group=group)
    quantise_kernel[(triton.cdiv(rows * per_row, config.block_g),)](
        x, q, scale, rows * per_row, channels, per_row,
        x.stride(0), q.stride(0), scale.stride(0), BG=config.block_g, G=group,
        EVEN=channels % group == 0, MX=mx, CEIL=ceil, POWER=power_of_two,
        ROUND=not x.is_cuda, num_warps=config.num_warps,
    )  # fmt: skip


def quant_tile(
    x: torch.Tensor, q: torch.Tensor, scale: torch.Tensor, *, power_of_two: bool = False
) -> None:
    """Write `q` [T, D] FP8 and `scale` fp32 [T, ceil(D/128)]; see reference.py.

    One launch, nothing allocated. Raises ValueError for a wrong shape or dtype.
    """
    launch(x, q, scale, group=TILE, mx=False, ceil=True, power_of_two=power_of_two)


def quant_mx(x: torch.Tensor, q: torch.Tensor, scale: torch.Tensor, *, rule: str = "rceil") -> None:
    """Write `q` [T, D] FP8 and `scale` uint8 [T, ceil(D/32)], E8M0 bytes; see reference.py.

    One launch, nothing allocated. Raises ValueError for a wrong shape, dtype or rule.
    """
    check_choice("rule", rule, RULES)
    launch(x, q, scale, group=MX_GROUP, mx=True, ceil=rule == "rceil", power_of_two=False)
