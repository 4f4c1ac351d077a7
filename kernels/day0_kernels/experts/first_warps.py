"""Gate and up with divided warps, see common/warps.py: tiles of 128 rows by 128 inner channels.

Four warps gather the rows and load the weights. Letters as in first.py.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import async_copy, mbarrier, tma

from day0_kernels.common.activations import activate
from day0_kernels.common.warps import blocks, open_barriers, plain_sums, scaled_sums
from day0_kernels.experts.launch import GemmLaunch
from day0_kernels.quant.quantise import MAX_AMAX, tile_scale

GATHERING = gl.constexpr(128)  # threads, each of which arrives when its copies have landed


@gluon.jit
def place_of(at, total, tiles, COLUMNS: gl.constexpr):
    """(expert, first place, end, column tile) of product number `at`; no places from `total` on."""
    own = at < total
    p_tile = tiles + at // COLUMNS * 4
    expert = gl.load(p_tile, mask=own, other=0)
    first = gl.load(p_tile + 1, mask=own, other=0)
    return expert, first, gl.load(p_tile + 2, mask=own, other=0), at % COLUMNS


@gluon.jit
def load_steps(
    x, gate, up, order, tiles, a, b_g, b_u, full, empty, begin, total, stride_x: gl.constexpr,
    gate_rows: gl.constexpr, up_rows: gl.constexpr, TOP_K: gl.constexpr, COLUMNS: gl.constexpr,
    STEPS: gl.constexpr, BK: gl.constexpr, PROGRAMS: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """The loading warps: every step of every product, as stages become free."""
    vector: gl.constexpr = 16 // (x.dtype.element_ty.primitive_bitwidth // 8)
    rows: gl.constexpr = gl.BlockedLayout([1, vector], [4, 8], [4, 1], [1, 0])
    o_m = gl.arange(0, 64, gl.SliceLayout(1, rows))
    o_k = gl.arange(0, BK, gl.SliceLayout(0, rows))
    at = 0
    for product in range(begin, total, PROGRAMS):
        expert, first, end, i_n = place_of(product, total, tiles, COLUMNS)
        # places past `end` read the row of place 0; they are computed and not stored
        low = gl.load(order + first + o_m, mask=first + o_m < end, other=0) // TOP_K
        high = gl.load(order + first + 64 + o_m, mask=first + 64 + o_m < end, other=0) // TOP_K
        p_low = x + gl.expand_dims(low.to(gl.int64) * stride_x, 1) + gl.expand_dims(o_k, 0)
        p_high = x + gl.expand_dims(high.to(gl.int64) * stride_x, 1) + gl.expand_dims(o_k, 0)
        row_g = expert * gate_rows + i_n * 128
        row_u = expert * up_rows + i_n * 128
        for step in range(STEPS):
            stage = at % STAGES
            mbarrier.wait(empty.index(stage), (at // STAGES & 1) ^ 1)
            ready = full.index(stage)
            mbarrier.expect(ready, 2 * gate.block_type.nbytes)
            tma.async_copy_global_to_shared(gate, [row_g, step * BK], ready, b_g.index(stage))
            tma.async_copy_global_to_shared(up, [row_u, step * BK], ready, b_u.index(stage))
            async_copy.async_copy_global_to_shared(a.index(stage * 2), p_low + step * BK)
            async_copy.async_copy_global_to_shared(a.index(stage * 2 + 1), p_high + step * BK)
            async_copy.mbarrier_arrive(ready, increment_count=False)
            at += 1


@gluon.jit
def multiply(
    h, order, tiles, gate_bias, up_bias, x_scale, gate_scale, up_scale, h_scale, a, b_g, b_u,
    full, empty, begin, total, limit, alpha, beta, linear_beta, stride_h: gl.constexpr,
    stride_gate_bias: gl.constexpr, stride_up_bias: gl.constexpr, stride_x_scale: gl.constexpr,
    stride_h_scale: gl.constexpr, stride_gs_e: gl.constexpr, stride_gs_n: gl.constexpr,
    stride_us_e: gl.constexpr, stride_us_n: gl.constexpr,
    WHICH: gl.constexpr, TOP_K: gl.constexpr, COLUMNS: gl.constexpr, STEPS: gl.constexpr,
    PROGRAMS: gl.constexpr, STAGES: gl.constexpr, FP8: gl.constexpr, HAS_BIAS: gl.constexpr,
    FUNCTION: gl.constexpr, HAS_LIMIT: gl.constexpr, HAS_LINEAR: gl.constexpr,
):  # fmt: skip
    """A group of multiplying warps: rows 64 * WHICH and following of every tile."""
    depth: gl.constexpr = 32 if FP8 else 16
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 128, depth])
    wide: gl.constexpr = (
        gl.BlockedLayout([1, 16], [4, 8], [4, 1], [1, 0]) if FP8
        else gl.BlockedLayout([1, 8], [2, 16], [4, 1], [1, 0])
    )  # fmt: skip
    at = 0
    expert, first, end, i_n = place_of(begin, total, tiles, COLUMNS)
    place = first + 64 * WHICH + gl.arange(0, 64, gl.SliceLayout(1, sums))
    token = gl.load(order + place, mask=place < end, other=0) // TOP_K
    for product in range(begin, total, PROGRAMS):
        # where the next tile is, and then its rows, is read while this one is worked on
        next_expert, next_first, next_end, next_n = place_of(
            product + PROGRAMS, total, tiles, COLUMNS
        )  # fmt: skip
        e64 = expert.to(gl.int64)
        if FP8:
            g, u, at = scaled_sums(
                a, b_g, b_u, full, empty, at, STEPS,
                x_scale + token.to(gl.int64) * stride_x_scale, place < end,
                gate_scale + e64 * stride_gs_e + i_n * stride_gs_n,
                up_scale + e64 * stride_us_e + i_n * stride_us_n, WHICH, STAGES, True, sums,
            )  # fmt: skip
            place = next_first + 64 * WHICH + gl.arange(0, 64, gl.SliceLayout(1, sums))
            token = gl.load(order + place, mask=place < next_end, other=0) // TOP_K
        else:
            g, u, at = plain_sums(
                a, b_g, b_u, full, empty, at, STEPS, WHICH, STAGES, True, sums
            )  # fmt: skip
        if HAS_BIAS:
            o_n = i_n * 128 + gl.arange(0, 128, gl.SliceLayout(0, sums))
            b_bias = gl.load(gate_bias + e64 * stride_gate_bias + o_n)
            g += gl.expand_dims(b_bias.to(gl.float32), 0)
            b_bias = gl.load(up_bias + e64 * stride_up_bias + o_n)
            u += gl.expand_dims(b_bias.to(gl.float32), 0)
        v = activate(g, u, limit, alpha, beta, linear_beta, FUNCTION, HAS_LIMIT, HAS_LINEAR)
        if FP8:
            # a maximum passes over NaN here, and the conversion saturates
            scale, factor = tile_scale(gl.minimum(gl.max(gl.abs(v), axis=1), MAX_AMAX), False)
            at_scale = first + 64 * WHICH + gl.arange(0, 64, gl.SliceLayout(1, sums))
            p_scale = h_scale + at_scale.to(gl.int64) * stride_h_scale + i_n
            gl.store(p_scale, scale, mask=at_scale < end)
            v *= gl.expand_dims(factor, 1)
        out = gl.convert_layout(v.to(h.dtype.element_ty), wide)
        o_m = first + 64 * WHICH + gl.arange(0, 64, gl.SliceLayout(1, wide))
        o_n = i_n * 128 + gl.arange(0, 128, gl.SliceLayout(0, wide))
        p_h = h + gl.expand_dims(o_m.to(gl.int64) * stride_h, 1) + gl.expand_dims(o_n, 0)
        gl.store(p_h, out, mask=gl.expand_dims(o_m < end, 1))
        expert, first, end, i_n = next_expert, next_first, next_end, next_n


@gluon.jit
def gate_up_warps(
    x, gate, up, h, order, tiles, gate_bias, up_bias, x_scale, gate_scale, up_scale, h_scale,
    limit, alpha, beta, linear_beta, stride_x: gl.constexpr, stride_h: gl.constexpr,
    stride_gate_bias: gl.constexpr, stride_up_bias: gl.constexpr, stride_x_scale: gl.constexpr,
    stride_h_scale: gl.constexpr, stride_gs_e: gl.constexpr, stride_gs_n: gl.constexpr,
    stride_us_e: gl.constexpr, stride_us_n: gl.constexpr, gate_rows: gl.constexpr,
    up_rows: gl.constexpr, TOP_K: gl.constexpr, COLUMNS: gl.constexpr, STEPS: gl.constexpr,
    BK: gl.constexpr, FP8: gl.constexpr, HAS_BIAS: gl.constexpr, FUNCTION: gl.constexpr,
    HAS_LIMIT: gl.constexpr, HAS_LINEAR: gl.constexpr, PROGRAMS: gl.constexpr,
    STAGES: gl.constexpr, REGISTERS: gl.constexpr,
):  # fmt: skip
    """Grid (PROGRAMS,). `gate` and `up` are descriptors [rows, H] with blocks [128, BK], expert e
    from row e * gate_rows (up_rows) on. Strides are constants: they would fill registers."""
    begin = gl.program_id(0)
    total = gl.load(tiles + 3) * COLUMNS
    rows: gl.constexpr = gl.NVMMASharedLayout(128, x.dtype.element_ty.primitive_bitwidth, 2)
    a = gl.allocate_shared_memory(x.dtype.element_ty, [2 * STAGES, 64, BK], rows)
    b_g = gl.allocate_shared_memory(gate.dtype, [STAGES, 128, BK], gate.layout)
    b_u = gl.allocate_shared_memory(up.dtype, [STAGES, 128, BK], up.layout)
    full, empty = open_barriers(STAGES, GATHERING + 1)
    gl.warp_specialize(
        [
            (multiply, (h, order, tiles, gate_bias, up_bias, x_scale, gate_scale, up_scale,
                        h_scale, a, b_g, b_u, full, empty, begin, total, limit, alpha, beta,
                        linear_beta, stride_h, stride_gate_bias, stride_up_bias, stride_x_scale,
                        stride_h_scale, stride_gs_e, stride_gs_n, stride_us_e, stride_us_n,
                        0, TOP_K, COLUMNS, STEPS, PROGRAMS, STAGES, FP8, HAS_BIAS, FUNCTION,
                        HAS_LIMIT, HAS_LINEAR)),
            (multiply, (h, order, tiles, gate_bias, up_bias, x_scale, gate_scale, up_scale,
                        h_scale, a, b_g, b_u, full, empty, begin, total, limit, alpha, beta,
                        linear_beta, stride_h, stride_gate_bias, stride_up_bias, stride_x_scale,
                        stride_h_scale, stride_gs_e, stride_gs_n, stride_us_e, stride_us_n,
                        1, TOP_K, COLUMNS, STEPS, PROGRAMS, STAGES, FP8, HAS_BIAS, FUNCTION,
                        HAS_LIMIT, HAS_LINEAR)),
            (load_steps, (x, gate, up, order, tiles, a, b_g, b_u, full, empty, begin, total,
                          stride_x, gate_rows, up_rows, TOP_K, COLUMNS, STEPS, BK, PROGRAMS,
                          STAGES)),
        ],
        [4, 4],
        [REGISTERS, 504 - 2 * REGISTERS],
    )  # fmt: skip


def start(
    x, order, tiles, gate, up, h, gate_bias, up_bias, x_scale, gate_scale, up_scale, h_scale,
    top_k, function, limit, alpha, beta, linear_beta, config: GemmLaunch,
) -> None:  # fmt: skip
    """Start the kernel; the arguments were checked in first.py."""
    inner, channels = gate.shape[1:]
    columns = inner // 128
    gate_rows, b_gate = blocks(gate, [128, config.block_k])
    up_rows, b_up = blocks(up, [128, config.block_k])
    gate_strides, up_strides = (
        (0, 0) if s is None else (s.stride(0), s.stride(1)) for s in (gate_scale, up_scale)
    )
    programs = min(tiles.shape[0] * columns, config.programs)
    gate_up_warps[(programs,)](
        x, b_gate, b_up, h, order, tiles, gate_bias, up_bias, x_scale, gate_scale, up_scale,
        h_scale, limit or 0.0, alpha or 0.0, beta or 0.0, linear_beta or 0.0,
        x.stride(0), h.stride(0),
        0 if gate_bias is None else gate_bias.stride(0),
        0 if up_bias is None else up_bias.stride(0),
        0 if x_scale is None else x_scale.stride(0),
        0 if h_scale is None else h_scale.stride(0),
        *gate_strides, *up_strides, gate_rows, up_rows, TOP_K=top_k, COLUMNS=columns,
        STEPS=channels // config.block_k, BK=config.block_k, FP8=x_scale is not None,
        HAS_BIAS=gate_bias is not None, FUNCTION=function, HAS_LIMIT=limit is not None,
        HAS_LINEAR=linear_beta is not None, PROGRAMS=programs, STAGES=config.num_stages,
        REGISTERS=config.registers, num_warps=4,
    )  # fmt: skip
