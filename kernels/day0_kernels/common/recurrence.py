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
def unit_vector(x):
    return x * tl.rsqrt(tl.sum(x * x, axis=0) + L2_EPS)


@triton.jit
def load_tile(p_state, o_v, live, DK: tl.constexpr, DV: tl.constexpr):
    """(the fp32 state at value channels `o_v`, or zeros where nothing is carried; its offsets)."""
    offsets = tl.arange(0, DK)[:, None] * DV + o_v[None, :]
    return tl.load(p_state + offsets, mask=(offsets >= 0) & live, other=0.0).to(tl.float32), offsets


@triton.jit
def delta_step(s, q, k, v, beta):
    """(new state, output) from the decayed state; q, k [DK], v [BV]."""
    delta = beta * (v - tl.sum(s * k[:, None], axis=0))
    # q^T (S + k delta) without a second pass over the new state
    out = tl.sum(s * q[:, None], axis=0) + tl.sum(q * k, axis=0) * delta
    return s + k[:, None] * delta[None, :], out
