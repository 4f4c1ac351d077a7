"""One token of a delta rule, with the state [DK, BV] of a tile of value channels in registers."""

from dataclasses import dataclass

import triton
import triton.language as tl

from day0_kernels.common.blocks import L2_EPS


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeLaunch:
    """Value columns of a program and its warps."""

    block_v: int
    num_warps: int


@triton.jit
def _add3(a, b, c, d, e, f):
    return a + d, b + e, c + f


@triton.jit
def normalised_pair(q, k, output_scale):
    """q (scaled) and k at unit length, and q . k, by one reduction: each costs barriers."""
    qq, kk, qk = tl.reduce((q * q, k * k, q * k), 0, _add3)
    scale_q = tl.rsqrt(qq + L2_EPS) * output_scale
    scale_k = tl.rsqrt(kk + L2_EPS)
    return q * scale_q, k * scale_k, qk * (scale_q * scale_k)


@triton.jit
def load_tile(p_state, o_v, live, DK: tl.constexpr, DV: tl.constexpr):
    """(the fp32 state at value channels `o_v`, or zeros where nothing is carried; its offsets)."""
    offsets = tl.arange(0, DK)[:, None] * DV + o_v[None, :]
    return tl.load(p_state + offsets, mask=(offsets >= 0) & live, other=0.0).to(tl.float32), offsets


@triton.jit
def delta_step(s, q, k, qk, v, beta):
    """(new state, output) from the decayed state; q, k [DK], qk = q . k, v [BV]."""
    # Two sums, although one reduction of both would save barriers: it would hold two products as
    # large as the state in registers.
    delta = beta * (v - tl.sum(s * k[:, None], axis=0))
    # q^T (S + k delta) without a second pass over the new state
    out = tl.sum(s * q[:, None], axis=0) + qk * delta
    return s + k[:, None] * delta[None, :], out
