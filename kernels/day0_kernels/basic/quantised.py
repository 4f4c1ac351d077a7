"""The gated activation with FP8 rows out: one launch, one scale for 128 channels of a row.

Letters: C channels of a row, G of a tile, NG tiles of a program. Grid (T, C / G / NG).
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.activations import activate
from day0_kernels.common.arguments import check_choice, check_shape
from day0_kernels.common.functions import GATED
from day0_kernels.quant.quantise import largest, tile_scale, to_fp8
from day0_kernels.quant.reference import FP8, TILE

NUM_TILES, NUM_WARPS = 8, 4


@triton.jit
def glu_tile_kernel(
    gate, up, q, q_scale, stride_gate, stride_up, stride_q, stride_scale, limit, alpha, beta,
    linear_beta, C: tl.constexpr, G: tl.constexpr, NG: tl.constexpr, FUNCTION: tl.constexpr,
    HAS_LIMIT: tl.constexpr, HAS_LINEAR: tl.constexpr, ROUND: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1) * NG + tl.arange(0, NG)
    channel = tile[:, None] * G + tl.arange(0, G)[None, :]
    mask = channel < C
    g = tl.load(gate + row * stride_gate + channel, mask=mask, other=0.0).to(tl.float32)
    u = tl.load(up + row * stride_up + channel, mask=mask, other=0.0).to(tl.float32)
    out = activate(g, u, limit, alpha, beta, linear_beta, FUNCTION, HAS_LIMIT, HAS_LINEAR)
    # channels beyond the last one count for no scale
    scale, factor = tile_scale(largest(tl.where(mask, out, 0.0)), False)
    tl.store(q_scale + row * stride_scale + tile, scale, mask=tile * G < C)
    tl.store(q + row * stride_q + channel, to_fp8(out * factor[:, None], ROUND), mask=mask)


def glu_tile(
    gate: torch.Tensor,
    up: torch.Tensor,
    q: torch.Tensor,
    q_scale: torch.Tensor,
    *,
    function: str,
    limit: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    linear_beta: float | None = None,
) -> None:
    """Write `q` [T, C] FP8 and `q_scale` fp32 [T, ceil(C/128)]; see reference.py. Nothing is
    allocated. Raises ValueError for a wrong shape, dtype or function."""
    check_choice("function", function, GATED)
    rows, channels = gate.shape
    tiles = triton.cdiv(channels, TILE)
    check_shape("up", up, "T, C", (rows, channels))
    check_shape("q", q, "T, C", (rows, channels))
    check_shape("q_scale", q_scale, "T, C/128", (rows, tiles))
    if q.dtype != FP8:
        raise ValueError(f"q must be {FP8}, got {q.dtype}")
    if rows == 0:
        return
    count = min(NUM_TILES, triton.next_power_of_2(tiles))
    glu_tile_kernel[(rows, triton.cdiv(tiles, count))](
        gate, up, q, q_scale, gate.stride(0), up.stride(0), q.stride(0), q_scale.stride(0),
        limit or 0.0, alpha or 0.0, beta or 0.0, linear_beta or 0.0, C=channels, G=TILE, NG=count,
        FUNCTION=function, HAS_LIMIT=limit is not None, HAS_LINEAR=linear_beta is not None,
        ROUND=not gate.is_cuda, num_warps=NUM_WARPS,
    )  # fmt: skip
