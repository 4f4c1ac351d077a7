"""FP8 product with divided warps, see common/warps.py: tiles of 128 rows by 256 outputs.

One warp loads both operands. Letters as in gemm.py.
"""

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

from day0_kernels.common.warps import blocks, open_barriers, scaled_sums, store_half
from day0_kernels.fp8_gemm.launch import Fp8GemmLaunch


@gluon.jit
def tile_of(product, down, ACROSS: gl.constexpr, GROUP: gl.constexpr):
    """(row tile, column tile) of a product: GROUP row tiles share a column of weight tiles."""
    first = product // (GROUP * ACROSS) * GROUP
    height = gl.minimum(down - first, GROUP)
    within = product % (GROUP * ACROSS)
    return first + within % height, within // height


@gluon.jit
def load_steps(
    x, weight, a, b_0, b_1, full, empty, begin, down, ACROSS: gl.constexpr, GROUP: gl.constexpr,
    STEPS: gl.constexpr, PROGRAMS: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """The loading warp: every step of every tile, as stages become free."""
    at = 0
    for product in range(begin, down * ACROSS, PROGRAMS):
        i_m, i_n = tile_of(product, down, ACROSS, GROUP)
        for step in range(STEPS):
            stage = at % STAGES
            mbarrier.wait(empty.index(stage), (at // STAGES & 1) ^ 1)
            ready = full.index(stage)
            mbarrier.expect(ready, 2 * x.block_type.nbytes + 2 * weight.block_type.nbytes)
            k = step * 128
            row, column = i_m * 128, i_n * 256
            tma.async_copy_global_to_shared(x, [row, k], ready, a.index(stage * 2))
            tma.async_copy_global_to_shared(x, [row + 64, k], ready, a.index(stage * 2 + 1))
            tma.async_copy_global_to_shared(weight, [column, k], ready, b_0.index(stage))
            tma.async_copy_global_to_shared(weight, [column + 128, k], ready, b_1.index(stage))
            at += 1


@gluon.jit
def multiply(
    x_scale, weight_scale, y, a, b_0, b_1, full, empty, begin, down, M, stride_xs: gl.constexpr,
    stride_ws: gl.constexpr, stride_y: gl.constexpr, WHICH: gl.constexpr, N: gl.constexpr,
    ACROSS: gl.constexpr, GROUP: gl.constexpr, STEPS: gl.constexpr, PROGRAMS: gl.constexpr,
    STAGES: gl.constexpr,
):  # fmt: skip
    """A group of multiplying warps: rows 64 * WHICH and following of every tile."""
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 32])
    wide: gl.constexpr = gl.BlockedLayout([1, 8], [2, 16], [4, 1], [1, 0])
    at = 0
    for product in range(begin, down * ACROSS, PROGRAMS):
        i_m, i_n = tile_of(product, down, ACROSS, GROUP)
        row = i_m * 128 + 64 * WHICH + gl.arange(0, 64, gl.SliceLayout(1, sums))
        p_scale = weight_scale + (i_n * 2).to(gl.int64) * stride_ws
        # with an odd number of 128 outputs the last half does not exist
        p_next = p_scale + gl.where((i_n * 2 + 1) * 128 < N, stride_ws, 0)
        c_0, c_1, at = scaled_sums(
            a, b_0, b_1, full, empty, at, STEPS, x_scale + row.to(gl.int64) * stride_xs, row < M,
            p_scale, p_next, WHICH, STAGES, False, sums,
        )  # fmt: skip
        row = i_m * 128 + 64 * WHICH + gl.arange(0, 64, gl.SliceLayout(1, wide))
        p_row = y + row.to(gl.int64) * stride_y
        store_half(c_0, p_row, row < M, i_n * 256, N, wide)
        store_half(c_1, p_row, row < M, i_n * 256 + 128, N, wide)


@gluon.jit
def gemm_warps(
    x, weight, x_scale, weight_scale, y, M, stride_xs: gl.constexpr, stride_ws: gl.constexpr,
    stride_y: gl.constexpr, N: gl.constexpr, ACROSS: gl.constexpr, GROUP: gl.constexpr,
    STEPS: gl.constexpr, PROGRAMS: gl.constexpr, STAGES: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Grid (PROGRAMS,). `x` and `weight` are descriptors with blocks [64, 128] and [128, 128]."""
    begin = gl.program_id(0)
    down = gl.cdiv(M, 128)
    a = gl.allocate_shared_memory(x.dtype, [2 * STAGES, 64, 128], x.layout)
    b_0 = gl.allocate_shared_memory(weight.dtype, [STAGES, 128, 128], weight.layout)
    b_1 = gl.allocate_shared_memory(weight.dtype, [STAGES, 128, 128], weight.layout)
    full, empty = open_barriers(STAGES, 1)
    gl.warp_specialize(
        [
            (multiply, (x_scale, weight_scale, y, a, b_0, b_1, full, empty, begin, down, M,
                        stride_xs, stride_ws, stride_y, 0, N, ACROSS, GROUP, STEPS, PROGRAMS,
                        STAGES)),
            (multiply, (x_scale, weight_scale, y, a, b_0, b_1, full, empty, begin, down, M,
                        stride_xs, stride_ws, stride_y, 1, N, ACROSS, GROUP, STEPS, PROGRAMS,
                        STAGES)),
            (load_steps, (x, weight, a, b_0, b_1, full, empty, begin, down, ACROSS, GROUP, STEPS,
                          PROGRAMS, STAGES)),
        ],
        [4, 1],
        [REGISTERS, 504 - 2 * REGISTERS],
    )  # fmt: skip


def start(x, x_scale, weight, weight_scale, y, config: Fp8GemmLaunch) -> None:
    """Start the kernel; the arguments were checked in gemm.py."""
    (rows, channels), outputs = x.shape, weight.shape[0]
    across = triton.cdiv(outputs, 256)
    programs = min(triton.cdiv(rows, 128) * across, config.programs)
    gemm_warps[(programs,)](
        blocks(x, [64, 128])[1], blocks(weight, [128, 128])[1], x_scale, weight_scale, y, rows,
        x_scale.stride(0), weight_scale.stride(0), y.stride(0), N=outputs, ACROSS=across,
        GROUP=config.group, STEPS=triton.cdiv(channels, 128), PROGRAMS=programs,
        STAGES=config.num_stages, REGISTERS=config.registers, num_warps=4,
    )  # fmt: skip
