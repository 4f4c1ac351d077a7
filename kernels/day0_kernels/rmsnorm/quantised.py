"""RMS norm of a row and its FP8 output in one pass, one row per program.

Letters: D channels in groups of G that share a scale; NG the power of two that holds the groups.
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.arguments import check_choice, check_shape
from day0_kernels.quant.quantise import exponent, largest, tile_scale, to_fp8
from day0_kernels.quant.reference import FP8, MX_GROUP, RULES, TILE
from day0_kernels.rmsnorm.launch import quantised_warps

MAX_WIDTH = 16384  # a wider row spills registers


@triton.jit
def quantised_kernel(
    x, residual, weight, q, q_scale, residual_out, y, stride_x, stride_residual, stride_q,
    stride_scale, stride_out, stride_y, eps, scale,
    D: tl.constexpr, G: tl.constexpr, NG: tl.constexpr, ADD: tl.constexpr,
    HAS_WEIGHT: tl.constexpr, ZERO_CENTERED: tl.constexpr, MX: tl.constexpr, CEIL: tl.constexpr,
    POWER: tl.constexpr, ROUND: tl.constexpr, BOTH: tl.constexpr,
):  # fmt: skip
    """Grid (T). MX: `q_scale` is the E8M0 byte. BOTH: the norm itself is written to y too."""
    row = tl.program_id(0).to(tl.int64)
    o_g = tl.arange(0, NG)
    channel = o_g[:, None] * G + tl.arange(0, G)[None, :]
    mask = channel < D
    m_g = o_g * G < D
    b_x = tl.load(x + row * stride_x + channel, mask=mask, other=0.0).to(tl.float32)
    if ADD:
        p_residual = residual + row * stride_residual + channel
        b_x += tl.load(p_residual, mask=mask, other=0.0).to(tl.float32)
        rounded = b_x.to(residual_out.dtype.element_ty)
        tl.store(residual_out + row * stride_out + channel, rounded, mask=mask)
        b_x = rounded.to(tl.float32)
    total = tl.sum(tl.sum(b_x * b_x, axis=1), axis=0)
    out = b_x * (tl.rsqrt(total / D + eps) * scale)
    if HAS_WEIGHT:
        gain = tl.load(weight + channel, mask=mask, other=0.0).to(tl.float32)
        if ZERO_CENTERED:
            gain += 1.0
        out *= gain
    if BOTH:
        tl.store(y + row * stride_y + channel, out.to(y.dtype.element_ty), mask=mask)
    amax = largest(out)
    p_scale = q_scale + row * stride_scale + o_g
    if MX:
        byte = exponent(amax, CEIL)
        # at most 247, so the inverse 2^(127 - byte) is a normal number
        factor = ((254 - byte) << 23).to(tl.float32, bitcast=True)
        tl.store(p_scale, byte.to(tl.uint8), mask=m_g)
    else:
        stored, factor = tile_scale(amax, POWER)
        tl.store(p_scale, stored, mask=m_g)
    tl.store(q + row * stride_q + channel, to_fp8(out * factor[:, None], ROUND), mask=mask)


def rmsnorm_tile(
    x: torch.Tensor,
    q: torch.Tensor,
    q_scale: torch.Tensor,
    weight: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    residual_out: torch.Tensor | None = None,
    y: torch.Tensor | None = None,
    *,
    eps: float,
    zero_centered: bool = False,
    scale: float = 1.0,
    power_of_two: bool = False,
) -> None:
    """Write `q` [T, D] FP8, `q_scale` fp32 [T, ceil(D/128)], `residual_out` with `residual`, and
    the norm itself to `y` [T, D] where one is given.

    See reference.py. One launch, nothing allocated. Raises ValueError for a wrong shape or dtype.
    """
    run(x, q, q_scale, weight, residual, residual_out, eps, zero_centered, scale,
        group=TILE, power_of_two=power_of_two, y=y)  # fmt: skip


def rmsnorm_mx(
    x: torch.Tensor,
    q: torch.Tensor,
    q_scale: torch.Tensor,
    weight: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
    residual_out: torch.Tensor | None = None,
    *,
    eps: float,
    zero_centered: bool = False,
    scale: float = 1.0,
    rule: str = "rceil",
) -> None:
    """Write `q` [T, D] FP8, `q_scale` uint8 [T, ceil(D/32)], and `residual_out` with `residual`.

    See reference.py. One launch, nothing allocated. Raises ValueError for a wrong shape, dtype or
    rule.
    """
    check_choice("rule", rule, RULES)
    run(x, q, q_scale, weight, residual, residual_out, eps, zero_centered, scale,
        group=MX_GROUP, ceil=rule == "rceil")  # fmt: skip


def run(
    x, q, q_scale, weight, residual, residual_out, eps, zero_centered, scale, *, group,
    ceil=True, power_of_two=False, y=None, num_warps: int | None = None,
) -> None:  # fmt: skip
    """Check, choose and start the kernel; the sweep passes its own `num_warps`."""
    tokens, channels = x.shape
    if channels > MAX_WIDTH:
        raise ValueError(f"x must have at most {MAX_WIDTH} channels, got {channels}")
    if (residual is None) != (residual_out is None):
        raise ValueError("residual and residual_out must be given together")
    add = residual is not None and residual_out is not None
    before, after = (residual, residual_out) if add else (x, x)
    normed = x if y is None else y
    for name, tensor in (("x", x), ("residual", before), ("residual_out", after), ("q", q),
                         ("y", normed)):  # fmt: skip
        check_shape(name, tensor, "T, D", (tokens, channels))
    if weight is not None:
        check_shape("weight", weight, "D", (channels,))
    check_shape("q_scale", q_scale, f"T, D/{group}", (tokens, triton.cdiv(channels, group)))
    if q.dtype != FP8:
        raise ValueError(f"q must be {FP8}, got {q.dtype}")
    if tokens == 0:
        return
    quantised_kernel[(tokens,)](
        x, before, weight, q, q_scale, after, normed, x.stride(0), before.stride(0), q.stride(0),
        q_scale.stride(0), after.stride(0), normed.stride(0), eps, scale, D=channels, G=group,
        NG=triton.next_power_of_2(triton.cdiv(channels, group)), ADD=add,
        HAS_WEIGHT=weight is not None, ZERO_CENTERED=zero_centered, MX=group == MX_GROUP,
        CEIL=ceil, POWER=power_of_two, ROUND=not x.is_cuda, BOTH=y is not None,
        num_warps=num_warps or quantised_warps(width=channels),
    )  # fmt: skip
