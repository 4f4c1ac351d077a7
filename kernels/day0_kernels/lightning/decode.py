"""One token of lightning attention per sequence: a head's state is read once and written once.

Letters: D head dim, BV value columns of a program, H heads.
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.arguments import check_shape
from day0_kernels.common.recurrence import DecodeLaunch, load_tile
from day0_kernels.lightning.launch import decode_launch
from day0_kernels.lightning.prefill import check
from day0_kernels.lightning.slope import log2_slope


@triton.jit
def decode_kernel(
    q,
    k,
    v,
    state,
    y,
    slot,
    start,
    stride_q,
    stride_k,
    stride_v,
    stride_slot,
    stride_head,
    stride_y,
    slope_scale,
    H: tl.constexpr,
    D: tl.constexpr,
    BV: tl.constexpr,
):
    """Grid (D / BV, H, N)."""
    i_h = tl.program_id(1).to(tl.int64)
    i_s = tl.program_id(2).to(tl.int64)
    o_k = tl.arange(0, D)
    o_v = tl.program_id(0) * BV + tl.arange(0, BV)
    live = tl.load(start + i_s) > 0
    p_state = state + tl.load(slot + i_s).to(tl.int64) * stride_slot + i_h * stride_head
    s, offsets = load_tile(p_state, o_v, live, D, D)
    b_q = tl.load(q + i_s * stride_q + i_h * D + o_k).to(tl.float32)
    b_k = tl.load(k + i_s * stride_k + i_h * D + o_k).to(tl.float32)
    b_v = tl.load(v + i_s * stride_v + i_h * D + o_v).to(tl.float32)
    s = s * tl.exp2(-log2_slope(i_h, slope_scale, H)) + b_k[:, None] * b_v[None, :]
    tl.store(p_state + offsets, s.to(state.dtype.element_ty))
    out = tl.sum(s * b_q[:, None], axis=0)
    tl.store(y + i_s * stride_y + i_h * D + o_v, out.to(y.dtype.element_ty))


def lightning_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    state: torch.Tensor,
    y: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    slope_scale: float,
) -> None:
    """One token per sequence; writes `y` [N, n*d] and updates `state` [slots, n, d, d] in place.

    Allocates nothing. Raises ValueError for a wrong shape, dtype or head dim.
    """
    config = decode_launch(num_programs=slot.shape[0] * num_heads, head_dim=head_dim)
    run(
        q, k, v, state, y, slot, start, num_heads=num_heads, head_dim=head_dim,
        slope_scale=slope_scale, config=config,
    )  # fmt: skip


def run(
    q, k, v, state, y, slot, start, *, num_heads: int, head_dim: int, slope_scale: float,
    config: DecodeLaunch,
) -> None:  # fmt: skip
    """Check and start the kernel; the sweep passes its own `config`."""
    check(q, k, v, state, y, num_heads, head_dim)
    check_shape("slot", slot, "N", (q.shape[0],))
    if q.shape[0] == 0:
        return
    decode_kernel[(head_dim // config.block_v, num_heads, q.shape[0])](
        q, k, v, state, y, slot, start, q.stride(0), k.stride(0), v.stride(0), state.stride(0),
        state.stride(1), y.stride(0), slope_scale, H=num_heads, D=head_dim, BV=config.block_v,
        num_warps=config.num_warps,
    )  # fmt: skip
