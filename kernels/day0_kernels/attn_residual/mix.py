"""One pass: all sources of a token in one program. Letters: H channels, BH the power of two that
holds them, N sources, NP their power of two."""

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
    N: tl.constexpr, H: tl.constexpr, BH: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """Every source is read once; the softmax runs along. Grid (T). x: N pointers."""
    row = tl.program_id(0).to(tl.int64)
    channel = tl.arange(0, BH)
    mask = channel < H
    b_query = tl.load(query + channel, mask=mask, other=0.0).to(tl.float32)
    largest = tl.full((), NEGATIVE, tl.float32)
    total = tl.zeros((), tl.float32)
    acc = tl.zeros((BH,), tl.float32)
    for i in tl.static_range(0, N):
        b_x = tl.load(x[i] + row * strides[i] + channel, mask=mask, other=0.0).to(tl.float32)
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
def tile_kernel(
    x, strides, query, y, stride_y, eps, scale,
    N: tl.constexpr, NP: tl.constexpr, H: tl.constexpr, BH: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """For few tokens: all sources side by side, blocks of BH channels read twice (the second time
    from a cache), so that nothing waits for a source before it. Grid (T)."""
    row = tl.program_id(0).to(tl.int64)
    number = tl.arange(0, NP)
    base = tl.zeros((NP,), tl.int64)
    for i in tl.static_range(0, N):
        base = tl.where(number == i, (x[i] + row * strides[i]).to(tl.int64), base)
    source = base.to(y.dtype)[:, None]
    exists = (number < N)[:, None]
    square = tl.zeros((NP, BH), tl.float32)
    dot = tl.zeros((NP, BH), tl.float32)
    for first in range(0, H, BH):
        channel = first + tl.arange(0, BH)
        mask = exists & (channel < H)[None, :]
        b_x = tl.load(source + tl.max_contiguous(tl.multiple_of(channel, BH), BH)[None, :],
                      mask=mask, other=0.0).to(tl.float32)  # fmt: skip
        b_query = tl.load(query + channel, mask=channel < H, other=0.0).to(tl.float32)
        square += b_x * b_x
        dot += b_x * b_query[None, :]
    squares, dots = tl.reduce((square, dot), 1, add_pairs)
    factor = tl.rsqrt(squares / H + eps)
    score = tl.where(number < N, dots * factor * scale, NEGATIVE)
    weight = tl.exp(score - tl.max(score, axis=0))
    weight = weight / tl.sum(weight, axis=0)
    if NORMED:
        weight = weight * factor
    for first in range(0, H, BH):
        channel = first + tl.arange(0, BH)
        mask = exists & (channel < H)[None, :]
        b_x = tl.load(source + tl.max_contiguous(tl.multiple_of(channel, BH), BH)[None, :],
                      mask=mask, other=0.0).to(tl.float32)  # fmt: skip
        out = tl.sum(b_x * weight[:, None], axis=0)
        tl.store(y + row * stride_y + channel, out.to(y.dtype.element_ty), mask=channel < H)


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
    count = len(x)
    # the pointers of padded places are never read
    pointers, strides = tuple(x), tuple(source.stride(0) for source in x)
    if launch.tile:
        tile_kernel[(rows,)](
            pointers, strides, query, y, y.stride(0), eps, scale, N=count,
            NP=triton.next_power_of_2(count), H=channels, BH=launch.block, NORMED=normed_values,
            num_warps=launch.num_warps,
        )  # fmt: skip
    else:
        online_kernel[(rows,)](
            pointers, strides, query, y, y.stride(0), eps, scale, N=count, H=channels,
            BH=triton.next_power_of_2(channels), NORMED=normed_values, num_warps=launch.num_warps,
        )  # fmt: skip
