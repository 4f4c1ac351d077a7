"""Second product with divided warps, see common/warps.py: tiles of 128 rows by 256 output channels.

One warp loads both operands. Letters as in second.py.
"""

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from day0_kernels.common.warps import (
    blocks,
    open_barriers,
    plain_sums,
    scaled_sums,
    store_half,
)
from day0_kernels.experts.first_warps import place_of
from day0_kernels.experts.launch import GemmLaunch


@gluon.jit
def load_steps(
    h, down, tiles, a, b_0, b_1, full, empty, begin, total, down_rows: gl.constexpr,
    COLUMNS: gl.constexpr, STEPS: gl.constexpr, BK: gl.constexpr, PROGRAMS: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    """The loading warp: every step of every product, as stages become free."""
    at = 0
    for product in range(begin, total, PROGRAMS):
        # places past `end` are other experts' rows; they are computed and not stored
        expert, first, end, i_n = place_of(product, total, tiles, COLUMNS)
        row = expert * down_rows + i_n * 256
        for step in range(STEPS):
            stage = at % STAGES
            mbarrier.wait(empty.index(stage), (at // STAGES & 1) ^ 1)
            ready = full.index(stage)
            mbarrier.expect(ready, 2 * h.block_type.nbytes + 2 * down.block_type.nbytes)
            k = step * BK
            tma.async_copy_global_to_shared(h, [first, k], ready, a.index(stage * 2))
            tma.async_copy_global_to_shared(h, [first + 64, k], ready, a.index(stage * 2 + 1))
            tma.async_copy_global_to_shared(down, [row, k], ready, b_0.index(stage))
            tma.async_copy_global_to_shared(down, [row + 128, k], ready, b_1.index(stage))
            at += 1


@gluon.jit
def finish(
    c, half, p_row, m_row, p_bias, b_weights, H: gl.constexpr, HAS_BIAS: gl.constexpr,
    LAYOUT: gl.constexpr, WIDE: gl.constexpr,
):  # fmt: skip
    """Bias, routing weight, and the store of [64, 128] sums at the rows' own places."""
    if HAS_BIAS:
        o_n = half + gl.arange(0, 128, gl.SliceLayout(0, LAYOUT))
        b_bias = gl.load(p_bias + o_n, mask=o_n < H, other=0.0)
        c += gl.expand_dims(b_bias.to(gl.float32), 0)
    store_half(c * gl.expand_dims(b_weights, 1), p_row, m_row, half, H, WIDE)


@gluon.jit
def multiply(
    partial, order, tiles, weights, down_bias, h_scale, down_scale, a, b_0, b_1, full, empty,
    begin, total, stride_partial: gl.constexpr, stride_bias: gl.constexpr,
    stride_h_scale: gl.constexpr, stride_s_e: gl.constexpr, stride_s_n: gl.constexpr,
    WHICH: gl.constexpr, H: gl.constexpr, COLUMNS: gl.constexpr, STEPS: gl.constexpr,
    PROGRAMS: gl.constexpr, STAGES: gl.constexpr, FP8: gl.constexpr, HAS_BIAS: gl.constexpr,
):  # fmt: skip
    """A group of multiplying warps: rows 64 * WHICH and following of every tile."""
    depth: gl.constexpr = 32 if FP8 else 16
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, depth])
    wide: gl.constexpr = gl.BlockedLayout([1, 8], [2, 16], [4, 1], [1, 0])
    at = 0
    expert, first, end, i_n = place_of(begin, total, tiles, COLUMNS)
    for product in range(begin, total, PROGRAMS):
        # what the end of a tile needs, and where the next one is, is read while this one multiplies
        place = first + 64 * WHICH + gl.arange(0, 64, gl.SliceLayout(1, wide))
        m_row = place < end
        row = gl.load(order + place, mask=m_row, other=0)
        place = first + 64 * WHICH + gl.arange(0, 64, gl.SliceLayout(1, sums))
        at_weights = weights + gl.load(order + place, mask=place < end, other=0)
        b_weights = gl.load(at_weights, mask=place < end, other=0.0).to(gl.float32)
        next_expert, next_first, next_end, next_n = place_of(
            product + PROGRAMS, total, tiles, COLUMNS
        )  # fmt: skip
        e64 = expert.to(gl.int64)
        if FP8:
            p_scale = down_scale + e64 * stride_s_e + i_n * 2 * stride_s_n
            # with an odd number of 128 channels the last half does not exist
            p_next = p_scale + gl.where((i_n * 2 + 1) * 128 < H, stride_s_n, 0)
            c_0, c_1, at = scaled_sums(
                a, b_0, b_1, full, empty, at, STEPS, h_scale + place.to(gl.int64) * stride_h_scale,
                place < end, p_scale, p_next, WHICH, STAGES, False, sums,
            )  # fmt: skip
        else:
            c_0, c_1, at = plain_sums(
                a, b_0, b_1, full, empty, at, STEPS, WHICH, STAGES, False, sums
            )  # fmt: skip
        p_row = partial + row.to(gl.int64) * stride_partial
        p_bias = down_bias
        if HAS_BIAS:
            p_bias += e64 * stride_bias
        finish(c_0, i_n * 256, p_row, m_row, p_bias, b_weights, H, HAS_BIAS, sums, wide)
        finish(c_1, i_n * 256 + 128, p_row, m_row, p_bias, b_weights, H, HAS_BIAS, sums, wide)
        expert, first, end, i_n = next_expert, next_first, next_end, next_n


@gluon.jit
def down_warps(
    h, down, partial, order, tiles, weights, down_bias, h_scale, down_scale,
    stride_partial: gl.constexpr, stride_bias: gl.constexpr, stride_h_scale: gl.constexpr,
    stride_s_e: gl.constexpr, stride_s_n: gl.constexpr, down_rows: gl.constexpr, H: gl.constexpr,
    COLUMNS: gl.constexpr, STEPS: gl.constexpr, BK: gl.constexpr, FP8: gl.constexpr,
    HAS_BIAS: gl.constexpr, PROGRAMS: gl.constexpr, STAGES: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Grid (PROGRAMS,). `h` is a descriptor with blocks [64, BK], `down` [rows, I] one with blocks
    [128, BK], expert e from row e * down_rows on."""
    begin = gl.program_id(0)
    total = gl.load(tiles + 3) * COLUMNS
    a = gl.allocate_shared_memory(h.dtype, [2 * STAGES, 64, BK], h.layout)
    b_0 = gl.allocate_shared_memory(down.dtype, [STAGES, 128, BK], down.layout)
    b_1 = gl.allocate_shared_memory(down.dtype, [STAGES, 128, BK], down.layout)
    full, empty = open_barriers(STAGES, 1)
    gl.warp_specialize(
        [
            (multiply, (partial, order, tiles, weights, down_bias, h_scale, down_scale, a, b_0,
                        b_1, full, empty, begin, total, stride_partial, stride_bias,
                        stride_h_scale, stride_s_e, stride_s_n, 0, H, COLUMNS, STEPS, PROGRAMS,
                        STAGES, FP8, HAS_BIAS)),
            (multiply, (partial, order, tiles, weights, down_bias, h_scale, down_scale, a, b_0,
                        b_1, full, empty, begin, total, stride_partial, stride_bias,
                        stride_h_scale, stride_s_e, stride_s_n, 1, H, COLUMNS, STEPS, PROGRAMS,
                        STAGES, FP8, HAS_BIAS)),
            (load_steps, (h, down, tiles, a, b_0, b_1, full, empty, begin, total, down_rows,
                          COLUMNS, STEPS, BK, PROGRAMS, STAGES)),
        ],
        [4, 1],
        [REGISTERS, 504 - 2 * REGISTERS],
    )  # fmt: skip


def start(
    h, order, tiles, weights, down, partial, down_bias, h_scale, down_scale, config: GemmLaunch
) -> None:  # fmt: skip
    """Start the kernel; the arguments were checked in second.py."""
    channels, inner = down.shape[1:]
    columns = triton.cdiv(channels, 256)
    down_rows, b_down = blocks(down, [128, config.block_k])
    down_warps[(min(tiles.shape[0] * columns, config.programs),)](
        blocks(h, [64, config.block_k])[1], b_down, partial, order, tiles, weights, down_bias,
        h_scale, down_scale, partial.stride(0), 0 if down_bias is None else down_bias.stride(0),
        0 if h_scale is None else h_scale.stride(0),
        *((0, 0) if down_scale is None else (down_scale.stride(0), down_scale.stride(1))),
        down_rows, H=channels, COLUMNS=columns, STEPS=inner // config.block_k, BK=config.block_k,
        FP8=h_scale is not None, HAS_BIAS=down_bias is not None,
        PROGRAMS=min(tiles.shape[0] * columns, config.programs), STAGES=config.num_stages,
        REGISTERS=config.registers, num_warps=4,
    )  # fmt: skip
