"""Results of a row's splits, put together by the logs of their denominators."""

import torch
import triton
import triton.language as tl

NEGATIVE = tl.constexpr(float("-inf"))
MERGED_ELEMENTS = 8192  # of a program: 64 registers a thread


@triton.jit(do_not_specialize=["rows"])
def merge_kernel(
    part, lse, out, stride_split, stride_row, stride_head, stride_out_row, stride_out_head, rows,
    N: tl.constexpr, D: tl.constexpr, BD: tl.constexpr, SPLITS: tl.constexpr, PS: tl.constexpr,
):  # fmt: skip
    """Grid (T, N, D / BD). PS: the power of two that holds SPLITS."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    split = tl.arange(0, PS)
    exists = split < SPLITS
    weight = tl.load(lse + (split * N + head) * rows + row, mask=exists, other=NEGATIVE)
    largest = tl.max(weight, axis=0)
    share = tl.exp2(weight - tl.where(largest == NEGATIVE, 0.0, largest))
    share = share / tl.maximum(tl.sum(share, axis=0), 1e-30)
    o_d = tl.program_id(2) * BD + tl.arange(0, BD)
    place = part + split.to(tl.int64)[:, None] * stride_split + head * stride_head
    mask = exists[:, None] & (o_d < D)[None, :]
    values = tl.load(place + row * stride_row + o_d[None, :], mask=mask, other=0.0)
    value = tl.sum(values * share[:, None], axis=0)
    tl.store(out + head * stride_out_head + row * stride_out_row + o_d,
             value.to(out.dtype.element_ty), mask=o_d < D)  # fmt: skip


def merge(part: torch.Tensor, lse: torch.Tensor, out: torch.Tensor) -> None:
    """Write out [T, N, D]: the normalised results part [splits, T, N, D], weighed by lse
    [splits, N, T] (units of log2, -inf for a split that saw nothing)."""
    splits, rows, heads, channels = part.shape
    most = triton.next_power_of_2(splits)
    block = min(triton.next_power_of_2(channels), max(MERGED_ELEMENTS // most, 16))
    merge_kernel[(rows, heads, triton.cdiv(channels, block))](
        part, lse, out, *part.stride()[:3], *out.stride()[:2], rows,
        N=heads, D=channels, BD=block, SPLITS=splits, PS=most, num_warps=4,
    )  # fmt: skip
