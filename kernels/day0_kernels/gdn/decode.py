"""Decode and verify of the gated delta net: a head's state is read once and written once.

Letters: DK/DV head dims, BV value columns of a program, M tokens per sequence, H value heads,
SHARE of them per key head.
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.activations import sigmoid
from day0_kernels.common.arguments import check_shape, verified
from day0_kernels.common.gates import log2_decay
from day0_kernels.common.recurrence import DecodeLaunch, delta_step, load_tile, normalised_pair
from day0_kernels.gdn.launch import decode_launch
from day0_kernels.gdn.prefill import check


@triton.jit
def decode_kernel(
    q,
    k,
    v,
    decay,
    beta,
    a_log,
    dt_bias,
    state,
    y,
    slot,
    version,
    start,
    stride_q,
    stride_k,
    stride_v,
    stride_decay,
    stride_beta,
    stride_slot,
    stride_version,
    stride_head,
    stride_y,
    output_scale,
    beta_scale,
    H: tl.constexpr,
    SHARE: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    BV: tl.constexpr,
    M: tl.constexpr,
    KEEP: tl.constexpr,
):
    """Grid (DV / BV, H, N). KEEP writes the state after token j to version j."""
    i_h = tl.program_id(1).to(tl.int64)
    i_s = tl.program_id(2).to(tl.int64)
    i_k = i_h // SHARE
    o_k = tl.arange(0, DK)
    o_v = tl.program_id(0) * BV + tl.arange(0, BV)
    live = tl.load(start + i_s) > 0
    p_state = state + tl.load(slot + i_s).to(tl.int64) * stride_slot + i_h * stride_head
    p_read = p_state + tl.load(version + i_s).to(tl.int64) * stride_version if KEEP else p_state
    s, offsets = load_tile(p_read, o_v, live, DK, DV)
    rate = tl.exp(tl.load(a_log + i_h).to(tl.float32))
    bias = tl.load(dt_bias + i_h).to(tl.float32)
    for j in tl.static_range(0, M):
        t = i_s * M + j
        b_q = tl.load(q + t * stride_q + i_k * DK + o_k).to(tl.float32)
        b_k = tl.load(k + t * stride_k + i_k * DK + o_k).to(tl.float32)
        b_v = tl.load(v + t * stride_v + i_h * DV + o_v).to(tl.float32)
        f = tl.load(decay + t * stride_decay + i_h).to(tl.float32) + bias
        b_beta = sigmoid(tl.load(beta + t * stride_beta + i_h).to(tl.float32)) * beta_scale
        s *= tl.exp2(log2_decay(f, rate, 0.0, False))
        b_q, b_k, overlap = normalised_pair(b_q, b_k, output_scale)
        s, out = delta_step(s, b_q, b_k, overlap, b_v, b_beta)
        if KEEP:
            tl.store(p_state + j * stride_version + offsets, s.to(state.dtype.element_ty))
        tl.store(y + t * stride_y + i_h * DV + o_v, out.to(y.dtype.element_ty))
    if not KEEP:
        tl.store(p_state + offsets, s.to(state.dtype.element_ty))


def gdn_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    state: torch.Tensor,
    y: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    num_key_heads: int,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    beta_scale: float = 1.0,
) -> None:
    """One token per sequence; writes `y` [N, n*dv] and updates `state` [slots, n, dk, dv] in place.

    Allocates nothing. Raises ValueError for a wrong shape or head dim.
    """
    check_shape("slot", slot, "N", (q.shape[0],))
    launch(
        q, k, v, decay, beta, a_log, dt_bias, state, y, slot, slot, start, 1, False,
        num_key_heads, num_heads, head_dim, value_dim, beta_scale,
    )  # fmt: skip


def gdn_verify(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    state: torch.Tensor,
    y: torch.Tensor,
    slot: torch.Tensor,
    version: torch.Tensor,
    start: torch.Tensor,
    *,
    num_key_heads: int,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    beta_scale: float = 1.0,
) -> None:
    """m = T / N tokens per sequence; writes `y` and all states into `state` [slots, >= m, ...].

    The state is read at `version` and written to versions 0..m-1, all in place, nothing allocated.
    """
    launch(
        q, k, v, decay, beta, a_log, dt_bias, state, y, slot, version, start,
        verified(q.shape[0], slot.shape[0], state.shape[1]), True,
        num_key_heads, num_heads, head_dim, value_dim, beta_scale,
    )  # fmt: skip


def launch(
    q, k, v, decay, beta, a_log, dt_bias, state, y, slot, version, start, per_sequence, keep,
    num_key_heads, num_heads, head_dim, value_dim, beta_scale, config: DecodeLaunch | None = None,
) -> None:  # fmt: skip
    """Check, choose and start the kernel; the sweep passes its own `config`."""
    check(
        q, k, v, decay, beta, a_log, dt_bias, state[:, 0] if keep else state, y,
        num_key_heads, num_heads, head_dim, value_dim,
    )  # fmt: skip
    sequences = slot.shape[0]
    if sequences == 0:
        return
    config = config or decode_launch(num_programs=sequences * num_heads, value_dim=value_dim)
    decode_kernel[(triton.cdiv(value_dim, config.block_v), num_heads, sequences)](
        q, k, v, decay, beta, a_log, dt_bias, state, y, slot, version, start,
        q.stride(0), k.stride(0), v.stride(0), decay.stride(0), beta.stride(0),
        state.stride(0), state.stride(1) if keep else 0, state.stride(-3), y.stride(0),
        head_dim**-0.5, beta_scale, H=num_heads, SHARE=num_heads // num_key_heads,
        DK=head_dim, DV=value_dim, BV=config.block_v, M=per_sequence, KEEP=keep,
        num_warps=config.num_warps,
    )  # fmt: skip
