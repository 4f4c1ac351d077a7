"""The decode step between the projections in one launch: conv, SiLU, recurrence, norm, gate.

Letters as in decode.py; WIDTH taps of the convolution, C = H * (2 DK + DV) channels [q | k | v].
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.activations import sigmoid
from day0_kernels.common.arguments import check_choice, check_power_of_two, check_shape
from day0_kernels.common.gates import log2_decay
from day0_kernels.common.recurrence import DecodeLaunch, delta_step, load_tile, normalised_pair
from day0_kernels.kda.launch import fused_launch


@triton.jit
def convolved(x, weight, tail, channels, live, stride_tail, WIDTH: tl.constexpr):
    """SiLU of the causal convolution of one token at `channels`."""
    y = tl.load(x + channels).to(tl.float32)
    y *= tl.load(weight + channels * WIDTH + WIDTH - 1).to(tl.float32)
    for tap in tl.static_range(0, WIDTH - 1):
        older = tl.load(tail + tap * stride_tail + channels, mask=(channels >= 0) & live, other=0.0)
        y += older.to(tl.float32) * tl.load(weight + channels * WIDTH + tap).to(tl.float32)
    return y * sigmoid(y)


@triton.jit
def shift_tail(x, tail, channels, live, stride_tail, WIDTH: tl.constexpr):
    """Drop the oldest row of the tail at `channels` and append the token.

    Several threads may hold the same channel, so rows are moved oldest first, each move by one
    load and one store with a barrier between.
    """
    for tap in tl.static_range(1, WIDTH):
        if tap < WIDTH - 1:
            p_from = tail + tap * stride_tail + channels
            moved = tl.load(p_from, mask=(channels >= 0) & live, other=0.0)
        else:
            moved = tl.load(x + channels).to(tail.dtype.element_ty)
        tl.debug_barrier()
        tl.store(tail + (tap - 1) * stride_tail + channels, moved)


@triton.jit
def updated(p_state, o_v, live, b_q, b_k, b_v, keep, b_beta, overlap,
            DK: tl.constexpr, DV: tl.constexpr):  # fmt: skip
    """Output at the value channels `o_v`; their state is updated in place."""
    s, offsets = load_tile(p_state, o_v, live, DK, DV)
    s, out = delta_step(s * keep[:, None], b_q, b_k, overlap, b_v, b_beta)
    tl.store(p_state + offsets, s.to(p_state.dtype.element_ty))
    return out


@triton.jit
def store_gated(p_o, out, p_weight, p_gate):
    out *= tl.load(p_weight).to(tl.float32)
    out *= sigmoid(tl.load(p_gate).to(tl.float32))
    tl.store(p_o, out.to(p_o.dtype.element_ty))


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
):
    """Grid (H, N): a program has a whole head, because the norm spans its value channels."""
    i_h = tl.program_id(0).to(tl.int64)
    i_s = tl.program_id(1).to(tl.int64)
    o_k = tl.arange(0, DK)
    o_v = tl.arange(0, BV)
    i_slot = tl.load(slot + i_s).to(tl.int64)
    live = tl.load(start + i_s) > 0

    rate = tl.exp(tl.load(a_log + i_h).to(tl.float32))
    f = tl.load(gate + i_s * stride_gate + i_h * DK + o_k).to(tl.float32)
    f += tl.load(dt_bias + i_h * DK + o_k).to(tl.float32)
    b_beta = sigmoid(tl.load(beta + i_s * stride_beta + i_h).to(tl.float32))
    p_x = x + i_s * stride_x
    p_tail = tail + i_slot * stride_conv
    p_state = state + i_slot * stride_slot + i_h * stride_head
    keys = i_h * DK + o_k
    values = 2 * H * DK + i_h * DV + o_v
    b_q = convolved(p_x, conv_weight, p_tail, keys, live, stride_tail, WIDTH)
    b_k = convolved(p_x, conv_weight, p_tail, H * DK + keys, live, stride_tail, WIDTH)
    b_q, b_k, overlap = normalised_pair(b_q, b_k, output_scale)
    keep = tl.exp2(log2_decay(f, rate, lower_bound, BOUNDED))

    # One or two tiles of value channels, as the launch says.
    b_v = convolved(p_x, conv_weight, p_tail, values, live, stride_tail, WIDTH)
    out = updated(p_state, o_v, live, b_q, b_k, b_v, keep, b_beta, overlap, DK, DV)
    squares = tl.sum(out * out, axis=0)
    if DV > BV:
        b_v = convolved(p_x, conv_weight, p_tail, values + BV, live, stride_tail, WIDTH)
        late = updated(p_state, o_v + BV, live, b_q, b_k, b_v, keep, b_beta, overlap, DK, DV)
        squares += tl.sum(late * late, axis=0)
    factor = tl.rsqrt(squares / DV + norm_eps)
    p_gate = norm_gate + i_s * stride_norm_gate + i_h * DV + o_v
    p_o = o + i_s * stride_o + i_h * DV + o_v
    store_gated(p_o, out * factor, norm_weight + o_v, p_gate)
    shift_tail(p_x, p_tail, values, live, stride_tail, WIDTH)
    if DV > BV:
        store_gated(p_o + BV, late * factor, norm_weight + o_v + BV, p_gate + BV)
        shift_tail(p_x, p_tail, values + BV, live, stride_tail, WIDTH)
    shift_tail(p_x, p_tail, keys, live, stride_tail, WIDTH)
    shift_tail(p_x, p_tail, H * DK + keys, live, stride_tail, WIDTH)


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
        config=fused_launch(value_dim=value_dim),
    )  # fmt: skip


def run(
    x, conv_weight, tail, gate, beta, a_log, dt_bias, state, norm_gate, norm_weight, o, slot,
    start, *, num_heads: int, head_dim: int, value_dim: int, decay: str,
    lower_bound: float | None, norm_eps: float, config: DecodeLaunch,
) -> None:  # fmt: skip
    """Check and start the kernel; the sweep passes its own `config`."""
    check_choice("decay", decay, ("bounded", "softplus"))
    check_power_of_two("head_dim", head_dim, 16, 128)
    check_power_of_two("value_dim", value_dim, 16, 128)
    tokens, channels = x.shape[0], num_heads * (2 * head_dim + value_dim)
    width = conv_weight.shape[-1]
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
        H=num_heads, DK=head_dim, DV=value_dim, BV=config.block_v, WIDTH=width,
        BOUNDED=decay == "bounded", num_warps=config.num_warps,
    )  # fmt: skip
