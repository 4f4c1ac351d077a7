"""Products of 16-bit rows with fp32 weights: routers and other small matrices that stay high.

Letters: T rows, BT of them in a program; N outputs, BN; K channels, BK of a step.
"""

import torch
import triton
import triton.language as tl

from day0_kernels.basic import library
from day0_kernels.common.arguments import check_shape
from day0_kernels.common.products import dot_fp32


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
        acc = dot_fp32(b_x, b_w, acc)
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
    few = rows <= 64
    block_rows, block_out, block_k = (16, 16, 256) if few else (64, 64, 64)
    precise_kernel[(triton.cdiv(rows, block_rows), triton.cdiv(outputs, block_out))](
        x, weight, y, x.stride(0), weight.stride(0), y.stride(0), rows, outputs, channels,
        BT=block_rows, BN=block_out, BK=block_k, num_warps=4, num_stages=3,
    )  # fmt: skip
