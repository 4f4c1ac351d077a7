"""Products of 16-bit rows with fp32 weights: routers and other small matrices that stay high.

Letters: T rows, BT of them in a program; N outputs, BN; K channels, BK of a step.
"""

import torch
import triton
import triton.language as tl

from day0_kernels.basic import library
from day0_kernels.common.arguments import check_shape
from day0_kernels.common.products import dot_fp32

FEW_ROWS = 128  # up to here the weights are read by many small programs, without matrix units
MOST_TERMS = 4096  # products of a step of such a program: 32 registers of each of its 128 threads


@triton.jit
def few_rows_kernel(
    x, weight, y, stride_x, stride_weight, stride_y, rows,
    N: tl.constexpr, K: tl.constexpr, BT: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Grid (T / BT, N / BN). Every thread keeps its own sums until the end: one reduction, and all
    loads on their way together."""
    row = tl.program_id(0).to(tl.int64) * BT + tl.arange(0, BT)[:, None, None]
    out = tl.program_id(1).to(tl.int64) * BN + tl.arange(0, BN)[None, :, None]
    terms = tl.zeros((BT, BN, BK), tl.float32)
    for step in tl.static_range((K + BK - 1) // BK):
        k = step * BK + tl.arange(0, BK)[None, None, :]
        b_x = tl.load(x + row * stride_x + k, mask=(row < rows) & (k < K), other=0.0)
        b_w = tl.load(weight + out * stride_weight + k, mask=(out < N) & (k < K), other=0.0)
        terms += b_x.to(tl.float32) * b_w
    target = y + row * stride_y + out
    total = tl.sum(terms, axis=2, keep_dims=True)
    tl.store(target, total.to(y.dtype.element_ty), mask=(row < rows) & (out < N))


@triton.jit
def precise_kernel(
    x, weight, y, stride_x, stride_weight, stride_y, rows, N, K,
    BT: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Grid (T / BT, N / BN)."""
    row = tl.program_id(0) * BT + tl.arange(0, BT)
    out = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BT, BN), tl.float32)
    for first in range(0, K, BK):
        k = first + tl.arange(0, BK)
        b_x = tl.load(x + row.to(tl.int64)[:, None] * stride_x + k[None, :],
                      mask=(row < rows)[:, None] & (k < K)[None, :], other=0.0)  # fmt: skip
        b_w = tl.load(weight + out[None, :] * stride_weight + k[:, None],
                      mask=(out < N)[None, :] & (k < K)[:, None], other=0.0)  # fmt: skip
        # the matrix unit truncates where it adds: long sums are made outside of it
        acc += dot_fp32(b_x, b_w, tl.zeros((BT, BN), tl.float32))
    target = y + row.to(tl.int64)[:, None] * stride_y + out[None, :]
    mask = (row < rows)[:, None] & (out < N)[None, :]
    tl.store(target, acc.to(y.dtype.element_ty), mask=mask)


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    y: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    groups: int = 1,
) -> None:
    """y [T, N] = x W^T for fp32 weights [N, K] without bias or groups; fp32 rows go to torch.
    Raises ValueError for a wrong shape."""
    if x.dtype == torch.float32 or bias is not None or groups > 1:
        library.linear(x, weight, y, bias, groups=groups)
        return
    (rows, channels), outputs = x.shape, weight.shape[0]
    check_shape("weight", weight, "N, K", (outputs, channels))
    check_shape("y", y, "T, N", (rows, outputs))
    if rows == 0:
        return
    strides = x.stride(0), weight.stride(0), y.stride(0)
    if rows <= FEW_ROWS:
        block_rows, block_out = min(triton.next_power_of_2(rows), 8), 2
        block_k = min(MOST_TERMS // (block_rows * block_out), 1024)
        few_rows_kernel[(triton.cdiv(rows, block_rows), triton.cdiv(outputs, block_out))](
            x, weight, y, *strides, rows, N=outputs, K=channels, BT=block_rows, BN=block_out,
            BK=block_k, num_warps=4,
        )  # fmt: skip
        return
    block = 64
    precise_kernel[(triton.cdiv(rows, block), triton.cdiv(outputs, block))](
        x, weight, y, *strides, rows, outputs, channels,
        BT=block, BN=block, BK=block, num_warps=4, num_stages=3,
    )  # fmt: skip
