"""Decode and verify of KDA: the state of a head is read once, updated in registers, written once.

Letters: DK/DV head dims, BV value columns of a program, M tokens per sequence, H heads.
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.activations import sigmoid
from day0_kernels.common.arguments import check_choice, check_shape, verified
from day0_kernels.common.gates import log2_decay
from day0_kernels.common.recurrence import DecodeLaunch, delta_step, load_tile, normalised_pair
from day0_kernels.kda.launch import decode_launch
from day0_kernels.kda.prefill import check


@triton.jit
def decode_kernel(
    q,
    k,
    v,
    gate,
    beta,
    a_log,
    dt_bias,
    state,
    o,
    slot,
    version,
    start,
    stride_q,
    stride_k,
    stride_v,
    stride_gate,
    stride_beta,
    stride_slot,
    stride_version,
    stride_head,
    stride_o,
    lower_bound,
    output_scale,
    H: tl.constexpr,
    DK: tl.constexpr,
    DV: tl.constexpr,
    BV: tl.constexpr,
    M: tl.constexpr,
    KEEP: tl.constexpr,
    BOUNDED: tl.constexpr,
):
    """Grid (DV / BV, H, N). KEEP writes the state after token j to version j."""
    i_h = tl.program_id(1).to(tl.int64)
    i_s = tl.program_id(2).to(tl.int64)
    o_k = tl.arange(0, DK)
    o_v = tl.program_id(0) * BV + tl.arange(0, BV)
    live = tl.load(start + i_s) > 0
    p_state = state + tl.load(slot + i_s).to(tl.int64) * stride_slot + i_h * stride_head
    p_read = p_state + tl.load(version + i_s).to(tl.int64) * stride_version if KEEP else p_state
    s, offsets = load_tile(p_read, o_v, live, DK, DV)
    rate = tl.exp(tl.load(a_log + i_h).to(tl.float32))
    bias = tl.load(dt_bias + i_h * DK + o_k).to(tl.float32)
    for j in tl.static_range(0, M):
        t = i_s * M + j
        b_q = tl.load(q + t * stride_q + i_h * DK + o_k).to(tl.float32)
        b_k = tl.load(k + t * stride_k + i_h * DK + o_k).to(tl.float32)
        f = tl.load(gate + t * stride_gate + i_h * DK + o_k).to(tl.float32)
        b_v = tl.load(v + t * stride_v + i_h * DV + o_v).to(tl.float32)
        b_beta = sigmoid(tl.load(beta + t * stride_beta + i_h).to(tl.float32))
        b_q, b_k, overlap = normalised_pair(b_q, b_k, output_scale)
        s *= tl.exp2(log2_decay(f + bias, rate, lower_bound, BOUNDED))[:, None]
        s, out = delta_step(s, b_q, b_k, overlap, b_v, b_beta)
        if KEEP:
            tl.store(p_state + j * stride_version + offsets, s.to(state.dtype.element_ty))
        tl.store(o + t * stride_o + i_h * DV + o_v, out.to(o.dtype.element_ty))
    if not KEEP:
        tl.store(p_state + offsets, s.to(state.dtype.element_ty))


def kda_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    state: torch.Tensor,
    o: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    decay: str,
    lower_bound: float | None = None,
) -> None:
    """One token per sequence; writes `o` [N, n*dv] and updates `state` [slots, n, dk, dv] in place.

    Allocates nothing. Raises ValueError for a wrong shape, head dim or decay form.
    """
    check_shape("slot", slot, "N", (q.shape[0],))
    launch(
        q, k, v, gate, beta, a_log, dt_bias, state, o, slot, slot, start, 1, False,
        num_heads, head_dim, value_dim, decay, lower_bound,
    )  # fmt: skip


def kda_verify(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    state: torch.Tensor,
    o: torch.Tensor,
    slot: torch.Tensor,
    version: torch.Tensor,
    start: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    decay: str,
    lower_bound: float | None = None,
) -> None:
    """m = T / N tokens per sequence; writes `o` and all states into `state` [slots, >= m, ...].

    The state is read at `version` and written to versions 0..m-1, all in place, nothing allocated.
    """
    launch(
        q, k, v, gate, beta, a_log, dt_bias, state, o, slot, version, start,
        verified(q.shape[0], slot.shape[0], state.shape[1]), True,
        num_heads, head_dim, value_dim, decay, lower_bound,
    )  # fmt: skip


def launch(
    q, k, v, gate, beta, a_log, dt_bias, state, o, slot, version, start, per_sequence, keep,
    num_heads, head_dim, value_dim, decay, lower_bound, config: DecodeLaunch | None = None,
) -> None:  # fmt: skip
    """Check, choose and start the kernel; the sweep passes its own `config`."""
    check_choice("decay", decay, ("bounded", "softplus"))
    check(
        q, k, v, gate, beta, dt_bias, state[:, 0] if keep else state, o,
        num_heads, head_dim, value_dim,
    )  # fmt: skip
    sequences = slot.shape[0]
    if sequences == 0:
        return
    config = config or decode_launch(num_programs=sequences * num_heads, value_dim=value_dim)
    decode_kernel[(triton.cdiv(value_dim, config.block_v), num_heads, sequences)](
        q, k, v, gate, beta, a_log, dt_bias, state, o, slot, version, start,
        q.stride(0), k.stride(0), v.stride(0), gate.stride(0), beta.stride(0),
        state.stride(0), state.stride(1) if keep else 0, state.stride(-3), o.stride(0),
        lower_bound if decay == "bounded" else 0.0, head_dim**-0.5,
        H=num_heads, DK=head_dim, DV=value_dim, BV=config.block_v, M=per_sequence, KEEP=keep,
        BOUNDED=decay == "bounded", num_warps=config.num_warps,
    )  # fmt: skip
