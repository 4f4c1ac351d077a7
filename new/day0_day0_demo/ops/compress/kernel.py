"""Triton kernel of compress.

Letters: D channels of a row, BD the power of two that holds them.
"""

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def compress_kernel(
    tail_entry,
    stride,
    D: tl.constexpr,
    BD: tl.constexpr,
):
    """One row of `tail_entry` a program. Zeros, until the operator stands here."""
    row = tl.program_id(0).to(tl.int64)
    o_d = tl.arange(0, BD)
    b_out = tl.zeros([BD], tl.float32)
    tl.store(tail_entry + row * stride + o_d, b_out.to(tail_entry.dtype.element_ty), mask=o_d < D)


def compress(
    x: torch.Tensor,
    tail_entry: torch.Tensor,
    pooled_entry: torch.Tensor,
    cu_seqlens: torch.Tensor,
    cu_history: torch.Tensor,
    history_first: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    gate: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    norm_weight: torch.Tensor | None = None,
    tail_gate: torch.Tensor | None = None,
    *,
    size: int,
    rule: str,
    overlap: bool = False,
    norm: str = "none",
    norm_eps: float | None = None,
    zero_centered: bool = False,
    theta: float | None = None,
    scaling: str | None = None,
    scaling_args: tuple[tuple[str, Any], ...] | None = None,
    rope_dims: int = 0,
    rope_place: str = "first",
    rope_pairing: str = "none",
) -> None:
    """As the definition; see reference.py."""
    rows, width = tail_entry.flatten(1).shape
    if rows == 0:
        return
    compress_kernel[(rows,)](
        tail_entry,
        tail_entry.stride(0),
        D=width,
        BD=triton.next_power_of_2(width),
    )
