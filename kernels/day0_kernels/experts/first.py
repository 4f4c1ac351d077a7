"""First grouped product: gate and up of the chosen experts, with the activation.

Rows are gathered by `order` while they are read (no permuted copy of x); one program makes both
products of a tile, so that the activation, and for FP8 the quantisation of h, stay in registers.
Letters: BM places of a tile, BN inner channels, BK channels of a step, E/I/H as in reference.py.
SWAP: products are made transposed, [BN, BM], see launch.py.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from day0_kernels.common.activations import activate
from day0_kernels.common.arguments import capability, check_choice, check_shape
from day0_kernels.common.functions import GATED
from day0_kernels.experts.launch import GemmLaunch, divisible, gate_up_launch
from day0_kernels.quant.quantise import largest, tile_scale, to_fp8

SCALE_TILE = tl.constexpr(128)


@triton.jit
def gate_up_tile(
    at, x, gate, up, h, order, tiles, gate_bias, up_bias, x_scale, gate_scale, up_scale, h_scale,
    stride_x, stride_h, stride_gate_bias, stride_up_bias, stride_x_scale, stride_h_scale,
    stride_gs_e, stride_gs_n, stride_us_e, stride_us_n, I, H, limit, alpha, beta, linear_beta,
    TOP_K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    SWAP: tl.constexpr, FP8: tl.constexpr, EVEN_K: tl.constexpr, HAS_BIAS: tl.constexpr,
    FUNCTION: tl.constexpr, HAS_LIMIT: tl.constexpr, HAS_LINEAR: tl.constexpr,
    ROUND: tl.constexpr,
):  # fmt: skip
    """Product number `at`: the tile at // (I / BN) and its inner channels."""
    columns = tl.cdiv(I, BN)
    tile = at // columns
    i_n = at % columns
    expert = tl.load(tiles + tile * 4)
    first = tl.load(tiles + tile * 4 + 1)
    end = tl.load(tiles + tile * 4 + 2)
    e64 = expert.to(tl.int64)
    place = first + tl.arange(0, BM)
    m_m = place < end
    token = (tl.load(order + place, mask=m_m, other=0) // TOP_K).to(tl.int64)
    o_k = tl.arange(0, BK)
    p_x = x + token[:, None] * stride_x + o_k[None, :]
    g = tl.zeros((BN, BM) if SWAP else (BM, BN), dtype=tl.float32)
    u = tl.zeros((BN, BM) if SWAP else (BM, BN), dtype=tl.float32)
    if FP8:
        # the scales of a step are read one step ahead: their latency is hidden by the products
        i_b = i_n * BN // SCALE_TILE
        p_sx = x_scale + token * stride_x_scale
        p_sg = gate_scale + e64 * stride_gs_e + i_b * stride_gs_n
        p_su = up_scale + e64 * stride_us_e + i_b * stride_us_n
        s_x = tl.load(p_sx, mask=m_m, other=0.0)
        s_g = tl.load(p_sg)
        s_u = tl.load(p_su)
    for k in range(0, H, BK):
        if EVEN_K:
            b_x = tl.load(p_x + k, mask=m_m[:, None], other=0.0)
        else:
            b_x = tl.load(p_x + k, mask=m_m[:, None] & (k + o_k < H)[None, :], other=0.0)
        b_g = tl.reshape(gate.load([expert, i_n * BN, k]), (BN, BK))
        b_u = tl.reshape(up.load([expert, i_n * BN, k]), (BN, BK))
        if FP8:
            following = tl.minimum(k + BK, H - 1) // SCALE_TILE
            n_x = tl.load(p_sx + following, mask=m_m, other=0.0)
            n_g = tl.load(p_sg + following)
            n_u = tl.load(p_su + following)
            if SWAP:
                g += tl.dot(b_g, tl.trans(b_x)) * (s_x * s_g)[None, :]
                u += tl.dot(b_u, tl.trans(b_x)) * (s_x * s_u)[None, :]
            else:
                g += tl.dot(b_x, tl.trans(b_g)) * (s_x * s_g)[:, None]
                u += tl.dot(b_x, tl.trans(b_u)) * (s_x * s_u)[:, None]
            s_x = n_x
            s_g = n_g
            s_u = n_u
        elif SWAP:
            g = tl.dot(b_g, tl.trans(b_x), g, input_precision="ieee")
            u = tl.dot(b_u, tl.trans(b_x), u, input_precision="ieee")
        else:
            g = tl.dot(b_x, tl.trans(b_g), g, input_precision="ieee")
            u = tl.dot(b_x, tl.trans(b_u), u, input_precision="ieee")
    if SWAP:
        g = tl.trans(g)
        u = tl.trans(u)
    o_n = i_n * BN + tl.arange(0, BN)
    m_n = o_n < I
    if HAS_BIAS:
        b_bias = tl.load(gate_bias + e64 * stride_gate_bias + o_n, mask=m_n, other=0.0)
        g += b_bias.to(tl.float32)[None, :]
        b_bias = tl.load(up_bias + e64 * stride_up_bias + o_n, mask=m_n, other=0.0)
        u += b_bias.to(tl.float32)[None, :]
    v = activate(g, u, limit, alpha, beta, linear_beta, FUNCTION, HAS_LIMIT, HAS_LINEAR)
    p_h = h + place.to(tl.int64)[:, None] * stride_h + o_n[None, :]
    mask = m_m[:, None] & m_n[None, :]
    if FP8:
        scale, factor = tile_scale(largest(tl.where(mask, v, 0.0)), False)
        tl.store(h_scale + place.to(tl.int64) * stride_h_scale + i_n, scale, mask=m_m)
        tl.store(p_h, to_fp8(v * factor[:, None], ROUND), mask=mask)
    else:
        tl.store(p_h, v.to(h.dtype.element_ty), mask=mask)


@triton.jit
def gate_up_kernel(
    x, gate, up, h, order, tiles, gate_bias, up_bias, x_scale, gate_scale, up_scale, h_scale,
    stride_x, stride_h, stride_gate_bias, stride_up_bias, stride_x_scale, stride_h_scale,
    stride_gs_e, stride_gs_n, stride_us_e, stride_us_n, I, H, limit, alpha, beta, linear_beta,
    TOP_K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    SWAP: tl.constexpr, FP8: tl.constexpr, EVEN_K: tl.constexpr, HAS_BIAS: tl.constexpr,
    FUNCTION: tl.constexpr, HAS_LIMIT: tl.constexpr, HAS_LINEAR: tl.constexpr,
    ROUND: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """Grid (PROGRAMS,) with products in turn, or PROGRAMS = 0: grid (tiles * I / BN,), one each.

    `gate` and `up` are descriptors with blocks [1, BN, BK].
    """
    first = tl.program_id(0)
    total = tl.load(tiles + 3) * tl.cdiv(I, BN)
    if PROGRAMS > 0:
        # flattened: the operands of the next product are on their way while this one is stored
        for at in tl.range(first, total, PROGRAMS, flatten=True):
            gate_up_tile(
                at, x, gate, up, h, order, tiles, gate_bias, up_bias, x_scale,
                gate_scale, up_scale, h_scale, stride_x, stride_h, stride_gate_bias,
                stride_up_bias, stride_x_scale, stride_h_scale, stride_gs_e,
                stride_gs_n, stride_us_e, stride_us_n, I, H, limit, alpha, beta,
                linear_beta, TOP_K, BM, BN, BK, SWAP, FP8, EVEN_K, HAS_BIAS, FUNCTION,
                HAS_LIMIT, HAS_LINEAR, ROUND,
            )  # fmt: skip
    elif first < total:
        gate_up_tile(
            first, x, gate, up, h, order, tiles, gate_bias, up_bias, x_scale,
            gate_scale, up_scale, h_scale, stride_x, stride_h, stride_gate_bias,
            stride_up_bias, stride_x_scale, stride_h_scale, stride_gs_e, stride_gs_n,
            stride_us_e, stride_us_n, I, H, limit, alpha, beta, linear_beta, TOP_K, BM,
            BN, BK, SWAP, FP8, EVEN_K, HAS_BIAS, FUNCTION, HAS_LIMIT, HAS_LINEAR, ROUND,
        )  # fmt: skip


def check_weight(name: str, weight: torch.Tensor, expected: tuple[int, int, int]) -> None:
    """Raise ValueError unless `weight` suits a tensor descriptor."""
    check_shape(name, weight, "E, n, k", expected)
    for stride in (weight.stride(0), weight.stride(1)):
        if stride * weight.element_size() % 16 or weight.data_ptr() % 16:
            raise ValueError(
                f"{name} must be aligned to 16 bytes in every row, got strides "
                f"{weight.stride()} of {weight.dtype}"
            )


def divided(
    rows: torch.Tensor, weights: tuple[torch.Tensor, ...], block_m: int, inputs: int, outputs: int
) -> bool:
    """Whether the product's warps can divide the work; `outputs` 0: any number of them."""
    aligned = rows.data_ptr() % 16 == 0 and rows.stride(0) * rows.element_size() % 16 == 0
    flat = all(w.stride(0) % w.stride(1) == 0 for w in weights)
    fits = divisible(
        rows=block_m, inputs=inputs, outputs=outputs, fp8=rows.element_size() == 1,
        capability=capability(rows),
    )  # fmt: skip
    return rows.element_size() <= 2 and aligned and flat and fits


def check_scale(name: str, scale: torch.Tensor | None, weight: torch.Tensor) -> None:
    """Raise ValueError unless `scale` holds a scale for each 128 x 128 block of `weight`."""
    if scale is None:
        raise ValueError(f"{name} must be given with weights of {weight.dtype}")
    e, n, k = weight.shape
    check_shape(name, scale, "E, n/128, k/128", (e, triton.cdiv(n, 128), triton.cdiv(k, 128)))


def gate_up(
    x: torch.Tensor,
    order: torch.Tensor,
    tiles: torch.Tensor,
    gate: torch.Tensor,
    up: torch.Tensor,
    h: torch.Tensor,
    gate_bias: torch.Tensor | None = None,
    up_bias: torch.Tensor | None = None,
    x_scale: torch.Tensor | None = None,
    gate_scale: torch.Tensor | None = None,
    up_scale: torch.Tensor | None = None,
    h_scale: torch.Tensor | None = None,
    *,
    top_k: int,
    block_m: int,
    function: str,
    limit: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    linear_beta: float | None = None,
) -> None:
    """Write `h` [T*k, I], and `h_scale` with FP8; see reference.py. One launch, no allocation.

    Raises ValueError for a wrong shape, stride or function.
    """
    run(x, order, tiles, gate, up, h, gate_bias, up_bias, x_scale, gate_scale, up_scale, h_scale,
        top_k, block_m, function, limit, alpha, beta, linear_beta)  # fmt: skip


def run(
    x, order, tiles, gate, up, h, gate_bias, up_bias, x_scale, gate_scale, up_scale, h_scale,
    top_k, block_m, function, limit, alpha, beta, linear_beta, config: GemmLaunch | None = None,
) -> None:  # fmt: skip
    """Check, choose and start the kernel; the sweep passes its own `config`."""
    check_choice("function", function, GATED)
    num_experts, inner, channels = gate.shape
    fp8 = gate.dtype == torch.float8_e4m3fn
    check_shape("x", x, "T, H", (x.shape[0], channels))
    check_shape("h", h, "T*k, I", (order.shape[0], inner))
    check_weight("gate", gate, (num_experts, inner, channels))
    check_weight("up", up, (num_experts, inner, channels))
    if (gate_bias is None) != (up_bias is None):
        raise ValueError("gate_bias and up_bias must be given together")
    if fp8:
        check_scale("gate_scale", gate_scale, gate)
        check_scale("up_scale", up_scale, up)
        if x_scale is None or h_scale is None:
            raise ValueError("x_scale and h_scale must be given with FP8 weights")
        check_shape("x_scale", x_scale, "T, H/128", (x.shape[0], triton.cdiv(channels, 128)))
        check_shape("h_scale", h_scale, "T*k, I/128", (h.shape[0], triton.cdiv(inner, 128)))
    if x.shape[0] == 0:
        return
    config = config or gate_up_launch(
        rows=block_m, fp8=fp8, exact=x.dtype == torch.float32,
        divided=divided(x, (gate, up), block_m, channels, inner),
    )  # fmt: skip
    if config.registers:
        from day0_kernels.experts.first_warps import start

        start(x, order, tiles, gate, up, h, gate_bias, up_bias, x_scale, gate_scale, up_scale,
              h_scale, top_k, function, limit, alpha, beta, linear_beta, config)  # fmt: skip
        return
    tile = [1, config.block_n, config.block_k]
    if fp8 and config.block_n != 128:
        raise ValueError(f"block_n must be 128 with FP8, got {config.block_n}")
    gate_strides, up_strides = (
        (0, 0) if s is None else (s.stride(0), s.stride(1)) for s in (gate_scale, up_scale)
    )
    products = tiles.shape[0] * triton.cdiv(inner, config.block_n)
    gate_up_kernel[(min(products, config.programs) if config.programs else products,)](
        x, TensorDescriptor.from_tensor(gate, tile), TensorDescriptor.from_tensor(up, tile), h,
        order, tiles, gate_bias, up_bias, x_scale, gate_scale, up_scale, h_scale,
        x.stride(0), h.stride(0),
        0 if gate_bias is None else gate_bias.stride(0),
        0 if up_bias is None else up_bias.stride(0),
        0 if x_scale is None else x_scale.stride(0),
        0 if h_scale is None else h_scale.stride(0),
        *gate_strides, *up_strides, inner, channels,
        limit or 0.0, alpha or 0.0, beta or 0.0, linear_beta or 0.0,
        TOP_K=top_k, BM=block_m, BN=config.block_n, BK=config.block_k, SWAP=config.swap, FP8=fp8,
        EVEN_K=channels % config.block_k == 0, HAS_BIAS=gate_bias is not None, FUNCTION=function,
        HAS_LIMIT=limit is not None, HAS_LINEAR=linear_beta is not None, ROUND=not x.is_cuda,
        PROGRAMS=min(products, config.programs),
        num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
