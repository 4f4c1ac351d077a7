"""One pass: all sources of a token in one program. Letters: H channels, BH the power of two that
holds them, N sources."""

import torch
import triton
import triton.language as tl

from day0_kernels.attn_residual.launch import MixLaunch, mix_launch
from day0_kernels.common.arguments import capability, check_shape

NEGATIVE = tl.constexpr(float("-inf"))


@triton.jit
def add_pairs(a, b, c, d):
    return a + c, b + d


@triton.jit
def online_kernel(
    x, strides, query, y, stride_y, eps, scale,
    N: tl.constexpr, NP: tl.constexpr, H: tl.constexpr, BH: tl.constexpr, NORMED: tl.constexpr,
    ALIGN: tl.constexpr,
):  # fmt: skip
    """For many tokens: every source is read once, one ahead of the running softmax. Grid (T). The
    loop is a real one (addresses in a table of NP): unrolled, all loads would move to its top and
    leave no registers for a second program."""
    row = tl.program_id(0).to(tl.int64)
    channel = tl.arange(0, BH)
    mask = channel < H
    number = tl.arange(0, NP)
    address = tl.zeros((NP,), tl.int64)
    for i in tl.static_range(0, N):
        address = tl.where(number == i, (x[i] + row * strides[i]).to(tl.int64), address)
    largest = tl.full((), NEGATIVE, tl.float32)
    total = tl.zeros((), tl.float32)
    acc = tl.zeros((BH,), tl.float32)
    source = tl.multiple_of(tl.sum(tl.where(number == 0, address, 0), axis=0).to(y.dtype), ALIGN)
    ahead = tl.load(source + channel, mask=mask, other=0.0)
    for i in range(N):
        b_x = ahead.to(tl.float32)
        following = tl.minimum(i + 1, N - 1)
        source = tl.sum(tl.where(number == following, address, 0), axis=0).to(y.dtype)
        ahead = tl.load(tl.multiple_of(source, ALIGN) + channel, mask=mask, other=0.0)
        b_query = tl.load(query + channel, mask=mask, other=0.0).to(tl.float32)
        square, dot = tl.reduce((b_x * b_x, b_x * b_query), 0, add_pairs)
        factor = tl.rsqrt(square / H + eps)
        score = dot * factor * scale
        larger = tl.maximum(largest, score)
        old, new = tl.exp(largest - larger), tl.exp(score - larger)
        total = total * old + new
        acc = acc * old + b_x * (new * factor if NORMED else new)
        largest = larger
    tl.store(y + row * stride_y + channel, (acc / total).to(y.dtype.element_ty), mask=mask)


@triton.jit
def per_thread(x, GROUPS: tl.constexpr):
    """Sums of [GROUPS * 4096] over what one of 512 threads holds: [512]."""
    return tl.sum(tl.sum(tl.reshape(x, (GROUPS, 512, 8)), axis=2), axis=0)


@triton.jit
def side_by_side(x, N: tl.constexpr):
    """16 tensors [512] as [512, 16], in order; `x` holds N, the rest are zeros."""
    nothing = tl.zeros((512,), tl.float32)
    a = ()
    for i in tl.static_range(0, 8):  # joins order places by their bits, the last join lowest
        a = a + (tl.join(x[i] if i < N else nothing, x[i + 8] if i + 8 < N else nothing),)
    b = (tl.join(a[0], a[4]), tl.join(a[1], a[5]), tl.join(a[2], a[6]), tl.join(a[3], a[7]))
    c = (tl.join(b[0], b[2]), tl.join(b[1], b[3]))
    return tl.reshape(tl.join(c[0], c[1]), (512, 16))


@triton.jit
def held_kernel(
    x, strides, query, y, stride_y, eps, scale,
    N: tl.constexpr, H: tl.constexpr, BH: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """For few tokens: all sources are loaded at once and stay in registers, and one reduction
    gives every score. Grid (T), 16 warps; N up to 16."""
    row = tl.program_id(0).to(tl.int64)
    channel = tl.arange(0, BH)
    mask = channel < H
    held = ()
    for i in tl.static_range(0, N):
        held = held + (tl.load(x[i] + row * strides[i] + channel, mask=mask, other=0.0),)
    b_query = tl.load(query + channel, mask=mask, other=0.0).to(tl.float32)
    squares = ()
    dots = ()
    for i in tl.static_range(0, N):
        b_x = held[i].to(tl.float32)
        squares = squares + (per_thread(b_x * b_x, BH // 4096),)
        dots = dots + (per_thread(b_x * b_query, BH // 4096),)
    square, dot = tl.reduce((side_by_side(squares, N), side_by_side(dots, N)), 0, add_pairs)
    number = tl.arange(0, 16)
    factor = tl.rsqrt(square / H + eps)
    score = tl.where(number < N, dot * factor * scale, NEGATIVE)
    weight = tl.exp(score - tl.max(score, axis=0))
    weight = weight / tl.sum(weight, axis=0)
    if NORMED:
        weight = weight * factor
    acc = tl.zeros((BH,), tl.float32)
    for i in tl.static_range(0, N):
        share = tl.sum(tl.where(number == i, weight, 0.0), axis=0)
        acc += held[i].to(tl.float32) * share
    tl.store(y + row * stride_y + channel, acc.to(y.dtype.element_ty), mask=mask)


def attn_residual(
    x: list[torch.Tensor],
    query: torch.Tensor,
    y: torch.Tensor,
    *,
    eps: float,
    scale: float = 1.0,
    normed_values: bool = False,
) -> None:
    """Write y [T, H]; see reference.py. Allocates nothing. Raises ValueError for a wrong shape or
    for sources of another dtype than y's."""
    rows, channels = y.shape
    launch = mix_launch(capability(y), num_tokens=rows, channels=channels, num_sources=len(x))
    run(x, query, y, eps=eps, scale=scale, normed_values=normed_values, launch=launch)


def run(
    x: list[torch.Tensor], query: torch.Tensor, y: torch.Tensor, *, eps: float, scale: float,
    normed_values: bool, launch: MixLaunch,
) -> None:  # fmt: skip
    """`attn_residual` by a given launch."""
    rows, channels = y.shape
    for number, source in enumerate(x):
        check_shape(f"x{number}", source, "T, H", (rows, channels))
        if source.dtype != y.dtype:
            raise ValueError(f"x{number} must be {y.dtype} as y is, got {source.dtype}")
    check_shape("query", query, "H", (channels,))
    if rows == 0:
        return
    pointers, strides = tuple(x), tuple(source.stride(0) for source in x)
    if launch.held:
        held_kernel[(rows,)](
            pointers, strides, query, y, y.stride(0), eps, scale, N=len(x), H=channels,
            BH=max(triton.next_power_of_2(channels), 4096), NORMED=normed_values,
            num_warps=launch.num_warps,
        )  # fmt: skip
        return
    aligned = all((source.data_ptr() | 2 * source.stride(0)) % 16 == 0 for source in x)
    online_kernel[(rows,)](
        pointers, strides, query, y, y.stride(0), eps, scale, N=len(x),
        NP=triton.next_power_of_2(len(x)), H=channels, BH=triton.next_power_of_2(channels),
        NORMED=normed_values, ALIGN=16 if aligned else 1, num_warps=launch.num_warps,
        maxnreg=launch.registers,
    )  # fmt: skip
