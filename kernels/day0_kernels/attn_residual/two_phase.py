"""Two phases: all queries of a block over the stored blocks, then each query with the running sum.

Letters: H channels, BH the power of two that holds them, N stored blocks, Q queries.
"""

import torch
import triton
import triton.language as tl

from day0_kernels.attn_residual.launch import MOST_HELD, blocks_launch, merge_warps
from day0_kernels.attn_residual.mix import NEGATIVE, add_pairs, per_thread, side_by_side
from day0_kernels.common.arguments import check_shape


@triton.jit
def blocks_kernel(
    x, strides, query, mixed, lse, stride_mixed, stride_lse, eps, scale,
    N: tl.constexpr, Q: tl.constexpr, QP: tl.constexpr, PER: tl.constexpr, H: tl.constexpr,
    BH: tl.constexpr, NORMED: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """Every source is loaded once and stays in registers for PER queries. Grid (T, Q / PER), 16
    warps; N up to 16. Queries come one after another from a table of their addresses."""
    row = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * PER
    channel = tl.arange(0, BH)
    mask = channel < H
    held = ()
    for i in tl.static_range(0, N):
        held = held + (tl.load(x[i] + row * strides[i] + channel, mask=mask, other=0.0),)
    squares = ()
    for i in tl.static_range(0, N):
        b_x = held[i].to(tl.float32)
        squares = squares + (per_thread(b_x * b_x, BH // 4096),)
    factor = tl.rsqrt(tl.sum(side_by_side(squares, N), axis=0) / H + eps)
    number = tl.arange(0, 16)
    entry = tl.arange(0, QP)
    address = tl.zeros((QP,), tl.int64)
    for i in tl.static_range(0, Q):
        address = tl.where(entry == i, query[i].to(tl.int64), address)
    for place in range(first, tl.minimum(first + PER, Q)):
        at = tl.sum(tl.where(entry == place, address, 0), axis=0).to(query[0].dtype)
        b_query = tl.load(tl.multiple_of(at, ALIGN) + channel, mask=mask, other=0.0)
        b_query = b_query.to(tl.float32)
        dots = ()
        for i in tl.static_range(0, N):
            dots = dots + (per_thread(held[i].to(tl.float32) * b_query, BH // 4096),)
        dot = tl.sum(side_by_side(dots, N), axis=0)
        score = tl.where(number < N, dot * factor * scale, NEGATIVE)
        largest = tl.max(score, axis=0)
        weight = tl.exp(score - largest)
        total = tl.sum(weight, axis=0)
        tl.store(lse + row * stride_lse + place, largest + tl.log(total))
        weight = weight / total
        if NORMED:
            weight = weight * factor
        acc = tl.zeros((BH,), tl.float32)
        for i in tl.static_range(0, N):
            share = tl.sum(tl.where(number == i, weight, 0.0), axis=0)
            acc += held[i].to(tl.float32) * share
        to = mixed + row * stride_mixed + place * H
        tl.store(to + channel, acc.to(mixed.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["number"])
def merge_kernel(
    x, residual, mixed, lse, query, norm_weight, y, residual_out,
    stride_x, stride_residual, stride_mixed, stride_lse, stride_y, stride_out, eps, scale,
    norm_eps, number, H: tl.constexpr, BH: tl.constexpr, ADDS: tl.constexpr,
    KEEPS: tl.constexpr, NORMS: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """The last source (a sum, with ADDS, which KEEPS stores) beside what phase 1 mixed, and with
    NORMS the RMS norm of all. Grid (T)."""
    row = tl.program_id(0).to(tl.int64)
    channel = tl.arange(0, BH)
    mask = channel < H
    last = tl.load(x + row * stride_x + channel, mask=mask, other=0.0)
    before = tl.load(mixed + row * stride_mixed + number * H + channel, mask=mask, other=0.0)
    b_query = tl.load(query + channel, mask=mask, other=0.0).to(tl.float32)
    if NORMS:
        b_norm = tl.load(norm_weight + channel, mask=mask, other=0.0).to(tl.float32)
    if ADDS:
        other = tl.load(residual + row * stride_residual + channel, mask=mask, other=0.0)
        # rounded as the sum that others read
        last = (last.to(tl.float32) + other.to(tl.float32)).to(x.dtype.element_ty)
        if KEEPS:
            tl.store(residual_out + row * stride_out + channel, last, mask=mask)
    source = last.to(tl.float32)
    square, dot = tl.reduce((source * source, source * b_query), 0, add_pairs)
    factor = tl.rsqrt(square / H + eps)
    share = tl.sigmoid(dot * factor * scale - tl.load(lse + row * stride_lse + number))
    b_before = before.to(tl.float32)
    total = b_before + share * (source * (factor if NORMED else 1.0) - b_before)
    if NORMS:
        total = total * tl.rsqrt(tl.sum(total * total, axis=0) / H + norm_eps) * b_norm
    tl.store(y + row * stride_y + channel, total.to(y.dtype.element_ty), mask=mask)


def attn_residual_blocks(
    x: list[torch.Tensor],
    query: list[torch.Tensor],
    mixed: torch.Tensor,
    lse: torch.Tensor,
    *,
    eps: float,
    scale: float = 1.0,
    normed_values: bool = False,
) -> None:
    """Write mixed [T, Q*H] and lse [T, Q]; see reference.py. Allocates nothing. Raises ValueError
    for a wrong shape, for sources of another dtype than mixed's, for queries of several dtypes."""
    rows, channels = x[0].shape
    check_shape("mixed", mixed, "T, Q*H", (rows, len(query) * channels))
    check_shape("lse", lse, "T, Q", (rows, len(query)))
    for number, source in enumerate(x):
        check_shape(f"x{number}", source, "T, H", (rows, channels))
        if source.dtype != mixed.dtype:
            raise ValueError(f"x{number} must be {mixed.dtype} as mixed is, got {source.dtype}")
    for number, one in enumerate(query):
        check_shape(f"query{number}", one, "H", (channels,))
        if one.dtype != query[0].dtype:
            raise ValueError(f"query{number} must be {query[0].dtype}, got {one.dtype}")
    if len(x) > MOST_HELD:
        raise ValueError(f"{len(x)} sources, up to {MOST_HELD} are held")
    if rows == 0:
        return
    per = blocks_launch(num_tokens=rows, num_queries=len(query))
    aligned = all(one.data_ptr() % 16 == 0 for one in query)
    blocks_kernel[(rows, triton.cdiv(len(query), per))](
        tuple(x), tuple(source.stride(0) for source in x), tuple(query), mixed, lse,
        mixed.stride(0), lse.stride(0), eps, scale, N=len(x), Q=len(query),
        QP=triton.next_power_of_2(len(query)), PER=per, H=channels,
        BH=max(triton.next_power_of_2(channels), 4096), NORMED=normed_values,
        ALIGN=16 if aligned else 1, num_warps=16,
    )  # fmt: skip


def attn_residual_merge(
    x: torch.Tensor,
    mixed: torch.Tensor,
    lse: torch.Tensor,
    query: torch.Tensor,
    y: torch.Tensor,
    residual: torch.Tensor | None = None,
    norm_weight: torch.Tensor | None = None,
    residual_out: torch.Tensor | None = None,
    *,
    number: int,
    eps: float,
    scale: float = 1.0,
    normed_values: bool = False,
    norm_eps: float = 0.0,
) -> None:
    """Write y [T, H] and residual_out [T, H]; see reference.py. Allocates nothing. Raises
    ValueError for a wrong shape or a number beyond the queries."""
    rows, channels = x.shape
    queries = lse.shape[1]
    if not 0 <= number < queries:
        raise ValueError(f"number is {number}, of {queries} queries")
    check_shape("mixed", mixed, "T, Q*H", (rows, queries * channels))
    check_shape("lse", lse, "T, Q", (rows, queries))
    check_shape("y", y, "T, H", (rows, channels))
    check_shape("query", query, "H", (channels,))
    for name, tensor in (("residual", residual), ("residual_out", residual_out)):
        if tensor is not None:
            check_shape(name, tensor, "T, H", (rows, channels))
    if norm_weight is not None:
        check_shape("norm_weight", norm_weight, "H", (channels,))
    if rows == 0:
        return
    other = x if residual is None else residual
    out = y if residual_out is None else residual_out
    merge_kernel[(rows,)](
        x, other, mixed, lse, query, query if norm_weight is None else norm_weight, y, out,
        x.stride(0), other.stride(0), mixed.stride(0), lse.stride(0), y.stride(0), out.stride(0),
        eps, scale, norm_eps, number, H=channels, BH=triton.next_power_of_2(channels),
        ADDS=residual is not None, KEEPS=residual_out is not None, NORMS=norm_weight is not None,
        NORMED=normed_values, num_warps=merge_warps(channels),
    )  # fmt: skip
