"""Rotary embedding: a program turns some heads of one token, whose sines it computes once.

Letters: N heads, D channels of a head, R of them turned from channel FIRST on; P = R / 2 pairs;
BN, BP, BD powers of two of a program.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from day0_kernels.common.arguments import check_choice, check_shape
from day0_kernels.rope.launch import block_heads, num_warps
from day0_kernels.rope.table import table


@triton.jit
def rope_kernel(
    x, y, positions, speeds, log_frequency, stride_x, stride_y, border, factor,
    N: tl.constexpr, D: tl.constexpr, P: tl.constexpr, FIRST: tl.constexpr, BN: tl.constexpr,
    BP: tl.constexpr, BD: tl.constexpr, HALF: tl.constexpr, INVERSE: tl.constexpr,
    LEARNED: tl.constexpr, COPY: tl.constexpr,
):  # fmt: skip
    """Grid (T, N / BN). COPY: the channels that do not turn go to y as well."""
    t = tl.program_id(0).to(tl.int64)
    o_n = tl.program_id(1) * BN + tl.arange(0, BN)
    m_n = (o_n < N)[:, None]
    o_p = tl.arange(0, BP)
    position = tl.load(positions + t)
    row = (position >= border).to(tl.int32)
    speed = tl.load(speeds + row * P + o_p, mask=o_p < P, other=0.0)
    if LEARNED:
        speed *= tl.exp(tl.load(log_frequency + o_p, mask=o_p < P, other=0.0).to(tl.float32))
    angle = position.to(tl.float32) * speed
    cos = (tl.cos(angle) * factor)[None, :]
    sin = (tl.sin(angle) * factor)[None, :]
    if INVERSE:
        sin = -sin
    p_x = x + t * stride_x + (o_n * D)[:, None]
    p_y = y + t * stride_y + (o_n * D)[:, None]
    kind = y.dtype.element_ty
    if HALF:
        o_a = (FIRST + o_p)[None, :]
        mask = m_n & (o_p < P)[None, :]
        a = tl.load(p_x + o_a, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(p_x + o_a + P, mask=mask, other=0.0).to(tl.float32)
        tl.store(p_y + o_a, (a * cos - b * sin).to(kind), mask=mask)
        tl.store(p_y + o_a + P, (b * cos + a * sin).to(kind), mask=mask)
    else:
        o_r = tl.arange(0, 2 * BP)
        mask = m_n & (o_r < 2 * P)[None, :]
        both = tl.load(p_x + (FIRST + o_r)[None, :], mask=mask, other=0.0).to(tl.float32)
        a, b = tl.split(tl.reshape(both, (BN, BP, 2)))
        turned = tl.join(a * cos - b * sin, b * cos + a * sin)
        turned = tl.reshape(turned, (BN, 2 * BP)).to(kind)
        tl.store(p_y + (FIRST + o_r)[None, :], turned, mask=mask)
    if COPY:
        o_d = tl.arange(0, BD)
        stays = (o_d < D) & ((o_d < FIRST) | (o_d >= FIRST + 2 * P))
        mask = m_n & stays[None, :]
        tl.store(p_y + o_d[None, :], tl.load(p_x + o_d[None, :], mask=mask).to(kind), mask=mask)


def rope(
    x: torch.Tensor,
    y: torch.Tensor,
    positions: torch.Tensor,
    log_frequency: torch.Tensor | None = None,
    *,
    theta: float,
    scaling: str = "default",
    scaling_args: tuple[tuple[str, Any], ...] = (),
    num_heads: int,
    dims: int,
    place: str = "first",
    pairing: str,
    inverse: bool = False,
) -> None:
    """Write `y` [T, n*d]; y may be x. See reference.py. One launch; a table is made once.

    Raises ValueError for a wrong shape or word, and for the scaling "dynamic".
    """
    check_choice("place", place, ("first", "last"))
    check_choice("pairing", pairing, ("half", "interleaved"))
    tokens, channels = x.shape
    head_dim = channels // num_heads
    if channels % num_heads or dims % 2 or not 0 < dims <= head_dim:
        raise ValueError(
            f"x must have {num_heads} heads (num_heads) of at least {dims} channels (dims, even), "
            f"got {channels} channels"
        )
    check_shape("x", x, "T, n*d", (tokens, channels))
    check_shape("y", y, "T, n*d", (tokens, channels))
    check_shape("positions", positions, "T", (tokens,))
    if log_frequency is not None:
        check_shape("log_frequency", log_frequency, "dims/2", (dims // 2,))
    if tokens == 0:
        return
    made = table(
        dims=dims, theta=theta, scaling=scaling, scaling_args=scaling_args, device=x.device
    )
    pairs = triton.next_power_of_2(dims // 2)
    block = block_heads(num_tokens=tokens, num_heads=num_heads, head_dim=head_dim)
    rope_kernel[(tokens, triton.cdiv(num_heads, block))](
        x, y, positions, made.speeds, log_frequency, x.stride(0), y.stride(0), made.border,
        made.factor, N=num_heads, D=head_dim, P=dims // 2,
        FIRST=0 if place == "first" else head_dim - dims, BN=block, BP=pairs,
        BD=triton.next_power_of_2(head_dim), HALF=pairing == "half", INVERSE=inverse,
        LEARNED=log_frequency is not None,
        COPY=dims < head_dim and y.data_ptr() != x.data_ptr(),
        num_warps=num_warps(channels=block * 2 * pairs),
    )  # fmt: skip
