"""Products whose warps divide the work: some load, two groups of four multiply (Hopper, in Gluon).

A tile is 128 rows by two halves of 128 columns. Each group of warps owns 64 rows of it: while one
scales and adds its sums in fp32, the other keeps the matrix unit busy, and the loading warps are
always a few steps ahead, across tiles too. Triton's own language cannot say this on this chip.

Letters: a [2 * STAGES, 64, BK] rows (two groups), b_0 and b_1 [STAGES, 128, BK] the two halves of
columns; `full` and `empty` one barrier per stage; `at` counts the steps since the start.
"""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor


def blocks(weight: torch.Tensor, shape: list[int]) -> tuple[int, TensorDescriptor]:
    """(rows from one matrix to the next, the descriptor of all rows of `weight`) for `shape`."""
    between, rows = 0, weight.shape[-2]
    if weight.dim() == 3:
        between = weight.stride(0) // weight.stride(1)
        rows += (weight.shape[0] - 1) * between
    flat = weight.as_strided((rows, weight.shape[-1]), (weight.stride(-2), 1))
    layout = gl.NVMMASharedLayout(128, weight.element_size() * 8, 2)
    return between, TensorDescriptor.from_tensor(flat, shape, layout)


@gluon.jit
def open_barriers(STAGES: gl.constexpr, ARRIVALS: gl.constexpr):
    """(full, empty): `ARRIVALS` fill a stage, both groups of warps together release it."""
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=ARRIVALS)
        mbarrier.init(empty.index(i), count=2)
    return full, empty


@gluon.jit
def scaled_sums(
    a, b_0, b_1, full, empty, at, steps, p_row, m_row, p_0, p_1,
    WHICH: gl.constexpr, STAGES: gl.constexpr, COPIED: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """FP8: (sums [64, 128] of both halves, next `at`). A step is 128 channels, whose sum is scaled.

    `p_row` + step points at the rows' scales, `p_0` and `p_1` + step at those of the halves.
    COPIED: rows came by ordinary copies, which the matrix unit sees after a fence only.
    """
    c_0 = gl.zeros([64, 128], gl.float32, LAYOUT)
    c_1 = gl.zeros([64, 128], gl.float32, LAYOUT)
    part = gl.zeros([64, 128], gl.float32, LAYOUT)
    s_row = gl.load(p_row, mask=m_row, other=0.0)
    s_0 = gl.load(p_0)
    s_1 = gl.load(p_1)
    for step in range(steps):
        stage = at % STAGES
        mbarrier.wait(full.index(stage), at // STAGES & 1)
        if COPIED:
            fence_async_shared()
        b_a = a.index(stage * 2 + WHICH)
        b_b = b_0.index(stage).permute((1, 0))
        part = warpgroup_mma(b_a, b_b, part, use_acc=False, is_async=True)
        # one step ahead: the latency is hidden by the product
        following = gl.minimum(step + 1, steps - 1)
        n_row = gl.load(p_row + following, mask=m_row, other=0.0)
        n_0 = gl.load(p_0 + following)
        n_1 = gl.load(p_1 + following)
        part = warpgroup_mma_wait(0, deps=(part,))
        c_0 += part * gl.expand_dims(s_row * s_0, 1)
        b_b = b_1.index(stage).permute((1, 0))
        part = warpgroup_mma(b_a, b_b, part, use_acc=False, is_async=True)
        part = warpgroup_mma_wait(0, deps=(part,))
        mbarrier.arrive(empty.index(stage), count=1)
        c_1 += part * gl.expand_dims(s_row * s_1, 1)
        s_row = n_row
        s_0 = n_0
        s_1 = n_1
        at += 1
    return c_0, c_1, at


@gluon.jit
def plain_sums(
    a, b_0, b_1, full, empty, at, steps,
    WHICH: gl.constexpr, STAGES: gl.constexpr, COPIED: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """bf16 or fp16: as `scaled_sums`, the products of one step run while the next are issued."""
    c_0 = gl.zeros([64, 128], gl.float32, LAYOUT)
    c_1 = gl.zeros([64, 128], gl.float32, LAYOUT)
    for step in range(steps):
        stage = at % STAGES
        mbarrier.wait(full.index(stage), at // STAGES & 1)
        if COPIED:
            fence_async_shared()
        b_a = a.index(stage * 2 + WHICH)
        c_0 = warpgroup_mma(b_a, b_0.index(stage).permute((1, 0)), c_0, is_async=True)
        c_1 = warpgroup_mma(b_a, b_1.index(stage).permute((1, 0)), c_1, is_async=True)
        c_0, c_1 = warpgroup_mma_wait(2, deps=(c_0, c_1))
        mbarrier.arrive(empty.index((at + STAGES - 1) % STAGES), count=1, pred=step > 0)
        at += 1
    c_0, c_1 = warpgroup_mma_wait(0, deps=(c_0, c_1))
    mbarrier.arrive(empty.index((at + STAGES - 1) % STAGES), count=1)
    return c_0, c_1, at


@gluon.jit
def store_half(c, p_row, m_row, first, N: gl.constexpr, WIDE: gl.constexpr):
    """[64, 128] values to the channels from `first` on (below N) of the rows `p_row` points at."""
    out = gl.convert_layout(c.to(p_row.dtype.element_ty), WIDE)
    o_n = first + gl.arange(0, 128, gl.SliceLayout(0, WIDE))
    mask = gl.expand_dims(m_row, 1) & gl.expand_dims(o_n < N, 0)
    gl.store(gl.expand_dims(p_row, 1) + gl.expand_dims(o_n, 0), out, mask=mask)
