"""The decode step between the projections in one launch: conv, SiLU, recurrence, norm, gate.

Letters as in decode.py; BV value columns of a tile, WIDTH taps of the
convolution, C = H * (2 DK + DV) channels [q | k | v].
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.activations import sigmoid
from day0_kernels.common.arguments import check_choice, check_power_of_two, check_shape
from day0_kernels.common.gates import log2_decay
from day0_kernels.common.recurrence import (
    ask_ahead,
    delta_step,
    load_tile,
    normalised_pair,
)
from day0_kernels.common.short_step import silu, store_tail, taps, window
from day0_kernels.kda.launch import FusedLaunch, fused_launch


@triton.jit
def decode_fused_kernel(
    x,
    conv_weight,
    tail,
    gate,
    beta,
    a_log,
    dt_bias,
    state,
    norm_gate,
    norm_weight,
    o,
    slot,
    start,
    stride_x,
    stride_conv,
    stride_tail,
    stride_gate,
    stride_beta,
    stride_slot,
    stride_head,
    stride_norm_gate,
    stride_o,
    lower_bound,
    output_scale,
    norm_eps,
    H: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    BV: tl.constexpr,
    WIDTH: tl.constexpr,
    BOUNDED: tl.constexpr,
    AHEAD: tl.constexpr,
    num_stages: tl.constexpr,
):
    """Grid (H, N): a program has a whole head, because the norm spans its value channels.

    The state goes through in DV / BV tiles; `num_stages` - 1 of them are on their way in shared
    memory, so that registers limit neither their number nor that of the programs. AHEAD asks for
    the state before anything else, into the L2 cache.
    """
    TILES: tl.constexpr = DV // BV
    i_h = tl.program_id(0).to(tl.int64)
    i_s = tl.program_id(1).to(tl.int64)
    o_k = tl.arange(0, DK)
    i_slot = tl.load(slot + i_s).to(tl.int64)
    live = tl.load(start + i_s) > 0

    p_state = state + i_slot * stride_slot + i_h * stride_head
    if AHEAD:  # noqa: SIM102 (a constexpr and a value are not joined)
        if live:
            ask_ahead(p_state, DK * DV)
    # all small loads stand before the first barrier
    rate = tl.exp(tl.load(a_log + i_h).to(tl.float32))
    f = tl.load(gate + i_s * stride_gate + i_h * DK + o_k).to(tl.float32)
    bias = tl.load(dt_bias + i_h * DK + o_k).to(tl.float32)
    # a plain sum, as a reduction for the reason that short_step.py gives
    f = tl.sum(tl.where(tl.arange(0, 2)[:, None] == 0, f[None, :], bias[None, :]), axis=0)
    b_beta = sigmoid(tl.load(beta + i_s * stride_beta + i_h).to(tl.float32))
    tile = tl.arange(0, TILES)[:, None]
    c_o = tile * BV + tl.arange(0, BV)[None, :]
    norm = tl.load(norm_weight + c_o).to(tl.float32)
    z = tl.load(norm_gate + i_s * stride_norm_gate + i_h * DV + c_o).to(tl.float32)
    p_x = x + i_s * stride_x
    p_tail = tail + i_slot * stride_conv
    c_q = i_h * DK + o_k
    c_k = H * DK + c_q
    c_v = 2 * H * DK + i_h * DV + tl.arange(0, DV)
    rows_q = window(p_x, p_tail, c_q, live, stride_tail, WIDTH)
    rows_k = window(p_x, p_tail, c_k, live, stride_tail, WIDTH)
    rows_v = window(p_x, p_tail, c_v, live, stride_tail, WIDTH)
    b_q = silu(tl.sum(rows_q.to(tl.float32) * taps(conv_weight, c_q, WIDTH), axis=0))
    b_k = silu(tl.sum(rows_k.to(tl.float32) * taps(conv_weight, c_k, WIDTH), axis=0))
    b_v = silu(tl.sum(rows_v.to(tl.float32) * taps(conv_weight, c_v, WIDTH), axis=0))
    tl.debug_barrier()
    store_tail(rows_q, p_tail, c_q, stride_tail, WIDTH)
    store_tail(rows_k, p_tail, c_k, stride_tail, WIDTH)
    store_tail(rows_v, p_tail, c_v, stride_tail, WIDTH)

    b_q, b_k, overlap = normalised_pair(b_q, b_k, output_scale)
    keep = tl.exp2(log2_decay(f, rate, lower_bound, BOUNDED))
    b_v = tl.reshape(b_v, (TILES, BV))
    out = tl.zeros((TILES, BV), tl.float32)
    for i in tl.range(0, TILES, num_stages=num_stages):
        s, offsets = load_tile(p_state, i * BV + tl.arange(0, BV), live, DK, DV)
        values = tl.sum(tl.where(tile == i, b_v, 0.0), axis=0)
        s, part = delta_step(s * keep[:, None], b_q, b_k, overlap, values, b_beta)
        tl.store(p_state + offsets, s.to(state.dtype.element_ty))
        out = tl.where(tile == i, part[None, :], out)
    squares = tl.sum(tl.sum(out * out, axis=1), axis=0)
    out *= tl.rsqrt(squares / DV + norm_eps) * norm * sigmoid(z)
    tl.store(o + i_s * stride_o + i_h * DV + c_o, out.to(o.dtype.element_ty))


def kda_decode_fused(
    x: torch.Tensor,
    conv_weight: torch.Tensor,
    tail: torch.Tensor,
    gate: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    state: torch.Tensor,
    norm_gate: torch.Tensor,
    norm_weight: torch.Tensor,
    o: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    decay: str,
    lower_bound: float | None = None,
    norm_eps: float = 1e-5,
) -> None:
    """One decode step; writes `o` and updates `tail` and `state` in place, allocates nothing.

    Shapes in reference.py. Raises ValueError for a wrong shape, head dim or decay form.
    """
    run(
        x, conv_weight, tail, gate, beta, a_log, dt_bias, state, norm_gate, norm_weight, o,
        slot, start, num_heads=num_heads, head_dim=head_dim, value_dim=value_dim, decay=decay,
        lower_bound=lower_bound, norm_eps=norm_eps,
        launch=fused_launch(num_programs=x.shape[0] * num_heads, value_dim=value_dim),
    )  # fmt: skip


def run(
    x, conv_weight, tail, gate, beta, a_log, dt_bias, state, norm_gate, norm_weight, o, slot,
    start, *, num_heads: int, head_dim: int, value_dim: int, decay: str,
    lower_bound: float | None, norm_eps: float, launch: FusedLaunch,
) -> None:  # fmt: skip
    """Check and start the kernel; the sweep passes its own `launch`."""
    check_choice("decay", decay, ("bounded", "softplus"))
    check_power_of_two("head_dim", head_dim, 16, 128)
    check_power_of_two("value_dim", value_dim, 16, 128)
    tokens, channels = x.shape[0], num_heads * (2 * head_dim + value_dim)
    width = conv_weight.shape[-1]
    check_choice("the width of conv_weight", str(width), ("2", "4"))
    check_shape("x", x, "N, n*(2*dk+dv)", (tokens, channels))
    check_shape("conv_weight", conv_weight, "C, 1, K", (channels, 1, width))
    if not conv_weight.is_contiguous():
        raise ValueError("conv_weight must be contiguous [C, 1, K]")
    check_shape("tail", tail[0], "K-1, C", (width - 1, channels))
    check_shape("gate", gate, "N, n*dk", (tokens, num_heads * head_dim))
    check_shape("norm_gate", norm_gate, "N, n*dv", (tokens, num_heads * value_dim))
    check_shape("o", o, "N, n*dv", (tokens, num_heads * value_dim))
    check_shape("state", state[0], "n, dk, dv", (num_heads, head_dim, value_dim))
    if tokens == 0:
        return
    decode_fused_kernel[(num_heads, tokens)](
        x, conv_weight, tail, gate, beta, a_log, dt_bias, state, norm_gate, norm_weight, o,
        slot, start, x.stride(0), tail.stride(0), tail.stride(1), gate.stride(0),
        beta.stride(0), state.stride(0), state.stride(1), norm_gate.stride(0), o.stride(0),
        lower_bound if decay == "bounded" else 0.0, head_dim**-0.5, norm_eps,
        H=num_heads, DK=head_dim, DV=value_dim, BV=launch.block_v, WIDTH=width,
        BOUNDED=decay == "bounded", AHEAD=launch.ahead and state.is_cuda,
        num_warps=launch.num_warps, num_stages=launch.stages,
    )  # fmt: skip
