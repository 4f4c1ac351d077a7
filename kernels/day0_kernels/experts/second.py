"""Second grouped product: the hidden rows through `down`, weighted, back to row order.

Letters: BM places of a tile, BN output channels, BK inner channels of a step; SWAP as in
first.py.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from day0_kernels.common.arguments import check_shape
from day0_kernels.experts.first import check_scale, check_weight, divided
from day0_kernels.experts.launch import GemmLaunch, down_launch

SCALE_TILE = tl.constexpr(128)


@triton.jit
def down_tile(
    at, h, down, partial, order, tiles, weights, down_bias, h_scale, down_scale,
    stride_partial, stride_bias, stride_h_scale, stride_s_e, stride_s_n, H, I,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SWAP: tl.constexpr, FP8: tl.constexpr,
    HAS_BIAS: tl.constexpr,
):  # fmt: skip
    """Product number `at`: the tile at // (H / BN) and its output channels."""
    columns = tl.cdiv(H, BN)
    tile = at // columns
    i_n = at % columns
    expert = tl.load(tiles + tile * 4)
    first = tl.load(tiles + tile * 4 + 1)
    end = tl.load(tiles + tile * 4 + 2)
    e64 = expert.to(tl.int64)
    place = first + tl.arange(0, BM)
    m_m = place < end
    row = tl.load(order + place, mask=m_m, other=0).to(tl.int64)
    acc = tl.zeros((BN, BM) if SWAP else (BM, BN), dtype=tl.float32)
    if FP8:
        p_sh = h_scale + place.to(tl.int64) * stride_h_scale
        p_sd = down_scale + e64 * stride_s_e + (i_n * BN // SCALE_TILE) * stride_s_n
        s_h = tl.load(p_sh, mask=m_m, other=0.0)
        s_d = tl.load(p_sd)
    for k in range(0, I, BK):
        # places past `end` are other experts' rows; they are computed and not stored
        b_h = h.load([first, k])
        b_d = tl.reshape(down.load([expert, i_n * BN, k]), (BN, BK))
        if FP8:
            following = tl.minimum(k + BK, I - 1) // SCALE_TILE
            n_h = tl.load(p_sh + following, mask=m_m, other=0.0)
            n_d = tl.load(p_sd + following)
            if SWAP:
                acc += tl.dot(b_d, tl.trans(b_h)) * (s_h * s_d)[None, :]
            else:
                acc += tl.dot(b_h, tl.trans(b_d)) * (s_h * s_d)[:, None]
            s_h = n_h
            s_d = n_d
        elif SWAP:
            acc = tl.dot(b_d, tl.trans(b_h), acc, input_precision="ieee")
        else:
            acc = tl.dot(b_h, tl.trans(b_d), acc, input_precision="ieee")
    if SWAP:
        acc = tl.trans(acc)
    o_n = i_n * BN + tl.arange(0, BN)
    m_n = o_n < H
    if HAS_BIAS:
        b_bias = tl.load(down_bias + e64 * stride_bias + o_n, mask=m_n, other=0.0)
        acc += b_bias.to(tl.float32)[None, :]
    acc *= tl.load(weights + row, mask=m_m, other=0.0).to(tl.float32)[:, None]
    p_out = partial + row[:, None] * stride_partial + o_n[None, :]
    tl.store(p_out, acc.to(partial.dtype.element_ty), mask=m_m[:, None] & m_n[None, :])


@triton.jit
def down_kernel(
    h, down, partial, order, tiles, weights, down_bias, h_scale, down_scale,
    stride_partial, stride_bias, stride_h_scale, stride_s_e, stride_s_n, H, I,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SWAP: tl.constexpr, FP8: tl.constexpr,
    HAS_BIAS: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """Grid as for `gate_up_kernel`. `h` and `down` are descriptors: [BM, BK] and [1, BN, BK]."""
    first = tl.program_id(0)
    total = tl.load(tiles + 3) * tl.cdiv(H, BN)
    if PROGRAMS > 0:
        for at in tl.range(first, total, PROGRAMS, flatten=True):
            down_tile(
                at, h, down, partial, order, tiles, weights, down_bias, h_scale,
                down_scale, stride_partial, stride_bias, stride_h_scale, stride_s_e,
                stride_s_n, H, I, BM, BN, BK, SWAP, FP8, HAS_BIAS,
            )  # fmt: skip
    elif first < total:
        down_tile(
            first, h, down, partial, order, tiles, weights, down_bias, h_scale,
            down_scale, stride_partial, stride_bias, stride_h_scale, stride_s_e,
            stride_s_n, H, I, BM, BN, BK, SWAP, FP8, HAS_BIAS,
        )  # fmt: skip


def down(
    h: torch.Tensor,
    order: torch.Tensor,
    tiles: torch.Tensor,
    weights: torch.Tensor,
    down: torch.Tensor,
    partial: torch.Tensor,
    down_bias: torch.Tensor | None = None,
    h_scale: torch.Tensor | None = None,
    down_scale: torch.Tensor | None = None,
    *,
    block_m: int,
) -> None:
    """Write `partial` [T*k, H]; see reference.py. One launch, nothing allocated.

    Raises ValueError for a wrong shape or stride.
    """
    run(h, order, tiles, weights, down, partial, down_bias, h_scale, down_scale, block_m)


def run(h, order, tiles, weights, down, partial, down_bias, h_scale, down_scale, block_m,
        config: GemmLaunch | None = None) -> None:  # fmt: skip
    """Check, choose and start the kernel; the sweep passes its own `config`."""
    num_experts, channels, inner = down.shape
    fp8 = down.dtype == torch.float8_e4m3fn
    check_shape("h", h, "T*k, I", (order.shape[0], inner))
    check_shape("partial", partial, "T*k, H", (order.shape[0], channels))
    check_weight("down", down, (num_experts, channels, inner))
    if not weights.is_contiguous():
        raise ValueError("weights must be contiguous")
    if fp8:
        check_scale("down_scale", down_scale, down)
        if h_scale is None:
            raise ValueError("h_scale must be given with FP8 weights")
        check_shape("h_scale", h_scale, "T*k, I/128", (h.shape[0], triton.cdiv(inner, 128)))
    if order.shape[0] == 0:
        return
    config = config or down_launch(
        rows=block_m, fp8=fp8, exact=h.dtype == torch.float32,
        divided=divided(h, (down,), block_m, inner, 0),
    )  # fmt: skip
    if config.registers:
        from day0_kernels.experts.second_warps import start

        start(h, order, tiles, weights, down, partial, down_bias, h_scale, down_scale, config)
        return
    products = tiles.shape[0] * triton.cdiv(channels, config.block_n)
    down_kernel[(min(products, config.programs) if config.programs else products,)](
        TensorDescriptor.from_tensor(h, [block_m, config.block_k]),
        TensorDescriptor.from_tensor(down, [1, config.block_n, config.block_k]),
        partial, order, tiles, weights, down_bias, h_scale, down_scale, partial.stride(0),
        0 if down_bias is None else down_bias.stride(0),
        0 if h_scale is None else h_scale.stride(0),
        *((0, 0) if down_scale is None else (down_scale.stride(0), down_scale.stride(1))),
        channels, inner, BM=block_m, BN=config.block_n, BK=config.block_k, SWAP=config.swap,
        FP8=fp8, HAS_BIAS=down_bias is not None,
        PROGRAMS=min(products, config.programs),
        num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
