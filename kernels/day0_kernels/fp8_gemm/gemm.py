"""FP8 product: a step covers 128 channels, whose sum is scaled and added in fp32.

Letters: BM rows, BN outputs, BK = 128 channels of a step. SWAP: made transposed, [BN, BM].
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from day0_kernels.common.arguments import capability, check_shape
from day0_kernels.fp8_gemm.launch import Fp8GemmLaunch, fp8_gemm_launch

BK = tl.constexpr(128)


@triton.jit
def gemm_kernel(
    x, weight, x_scale, weight_scale, y, stride_xs, stride_ws, stride_y, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, SWAP: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Grid (M / BM * N / BN,). `x` and `weight` are descriptors with blocks [BM, BK], [BN, BK]."""
    pid = tl.program_id(0)
    across = tl.cdiv(N, BN)
    down = tl.cdiv(M, BM)
    first = pid // (GROUP * across) * GROUP
    height = tl.minimum(down - first, GROUP)
    i_m = first + pid % (GROUP * across) % height
    i_n = pid % (GROUP * across) // height
    o_m = (i_m * BM + tl.arange(0, BM)).to(tl.int64)
    m_m = o_m < M
    p_x = x_scale + o_m * stride_xs
    p_w = weight_scale + (i_n * BN // 128).to(tl.int64) * stride_ws
    s_x = tl.load(p_x, mask=m_m, other=0.0)
    s_w = tl.load(p_w)
    acc = tl.zeros((BN, BM) if SWAP else (BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        b_x = x.load([i_m * BM, k])
        b_w = weight.load([i_n * BN, k])
        # one step ahead: the latency is hidden by the product
        following = tl.minimum(k + BK, K - 1) // BK
        n_x = tl.load(p_x + following, mask=m_m, other=0.0)
        n_w = tl.load(p_w + following)
        if SWAP:
            acc += tl.dot(b_w, tl.trans(b_x)) * (s_x * s_w)[None, :]
        else:
            acc += tl.dot(b_x, tl.trans(b_w)) * (s_x * s_w)[:, None]
        s_x = n_x
        s_w = n_w
    if SWAP:
        acc = tl.trans(acc)
    o_n = i_n * BN + tl.arange(0, BN)
    p_y = y + o_m[:, None] * stride_y + o_n[None, :]
    tl.store(p_y, acc.to(y.dtype.element_ty), mask=m_m[:, None] & (o_n < N)[None, :])


def fp8_gemm(
    x: torch.Tensor,
    x_scale: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    y: torch.Tensor,
) -> None:
    """Write `y` [M, N]; see reference.py. One launch, nothing allocated.

    Raises ValueError for a wrong shape, dtype or a row that is not aligned to 16 bytes.
    """
    run(x, x_scale, weight, weight_scale, y)


def run(x, x_scale, weight, weight_scale, y, config: Fp8GemmLaunch | None = None) -> None:
    """Check, choose and start the kernel; the sweep passes its own `config`."""
    rows, channels = x.shape
    outputs = weight.shape[0]
    steps = triton.cdiv(channels, 128)
    check_shape("x", x, "M, K", (rows, channels))
    check_shape("x_scale", x_scale, "M, K/128", (rows, steps))
    check_shape("weight", weight, "N, K", (outputs, channels))
    check_shape("weight_scale", weight_scale, "N/128, K/128", (triton.cdiv(outputs, 128), steps))
    check_shape("y", y, "M, N", (rows, outputs))
    for name, tensor in (("x", x), ("weight", weight)):
        if tensor.dtype != torch.float8_e4m3fn:
            raise ValueError(f"{name} must be torch.float8_e4m3fn, got {tensor.dtype}")
        if tensor.stride(0) % 16 or tensor.data_ptr() % 16:
            raise ValueError(f"{name} must be aligned to 16 bytes, row stride {tensor.stride(0)}")
    if rows == 0:
        return
    divisible = capability(x) == (9, 0) and y.element_size() == 2
    config = config or fp8_gemm_launch(rows=rows, outputs=outputs, divisible=divisible)
    if config.programs:
        from day0_kernels.fp8_gemm.gemm_warps import start

        start(x, x_scale, weight, weight_scale, y, config)
        return
    grid = triton.cdiv(rows, config.block_m) * triton.cdiv(outputs, config.block_n)
    gemm_kernel[(grid,)](
        TensorDescriptor.from_tensor(x, [config.block_m, 128]),
        TensorDescriptor.from_tensor(weight, [config.block_n, 128]),
        x_scale, weight_scale, y, x_scale.stride(0), weight_scale.stride(0), y.stride(0),
        rows, outputs, channels, BM=config.block_m, BN=config.block_n, SWAP=config.swap,
        GROUP=config.group, num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
