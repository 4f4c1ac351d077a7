"""Sum of a token's weighted expert rows, in the order of its choices: the same in every run.

Letters: K choices, BH channels of a program.
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.arguments import check_shape


@triton.jit
def combine_kernel(
    partial, experts, y, stride_partial, stride_y, H, E: tl.constexpr, K: tl.constexpr,
    BH: tl.constexpr,
):  # fmt: skip
    """Grid (T, H / BH). Rows of experts kept elsewhere were never written and are not read."""
    t = tl.program_id(0).to(tl.int64)
    o_h = tl.program_id(1) * BH + tl.arange(0, BH)
    total = tl.zeros((BH,), dtype=tl.float32)
    for j in tl.static_range(0, K):
        e = tl.load(experts + t * K + j)
        here = (e >= 0) & (e < E)
        p_row = partial + (t * K + j) * stride_partial + o_h
        total += tl.load(p_row, mask=(o_h < H) & here, other=0.0).to(tl.float32)
    tl.store(y + t * stride_y + o_h, total.to(y.dtype.element_ty), mask=o_h < H)


def combine(
    partial: torch.Tensor, experts: torch.Tensor, y: torch.Tensor, *, num_experts: int
) -> None:
    """Write `y` [T, H]; see reference.py. One launch, nothing allocated."""
    tokens, top_k = experts.shape
    channels = y.shape[1]
    check_shape("partial", partial, "T*k, H", (tokens * top_k, channels))
    check_shape("y", y, "T, H", (tokens, channels))
    if tokens == 0:
        return
    block = min(triton.next_power_of_2(channels), 512 if tokens <= 256 else 1024)
    combine_kernel[(tokens, triton.cdiv(channels, block))](
        partial, experts, y, partial.stride(0), y.stride(0), channels,
        E=num_experts, K=top_k, BH=block, num_warps=2 if block <= 512 else 4,
    )  # fmt: skip
