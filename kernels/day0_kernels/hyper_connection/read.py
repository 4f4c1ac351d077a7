"""Reading of hyper-connections: one kernel projects all streams, one mixes them.

Letters: T tokens, BT of them in a program; K = m*H channels, BK of a step; M streams, MP the power
of two that holds them. The rows of fn come as 2 * MP * MP columns: pre at 0, post at MP, the square
mix at MP * MP + i * MP + j; the rest is zero.
"""

import torch
import triton
import triton.language as tl

from day0_kernels.common.activations import sigmoid
from day0_kernels.common.arguments import capability, check_choice, check_shape
from day0_kernels.common.products import dot_fp32
from day0_kernels.common.workspace import cut
from day0_kernels.hyper_connection.launch import ReadLaunch, read_launch

VARIANTS = ("sinkhorn", "identity", "head")


@triton.jit
def project_kernel(
    x, fn, part, squares, stride_x, stride_fn, tokens,
    K: tl.constexpr, M: tl.constexpr, MP: tl.constexpr, ROWS: tl.constexpr, BT: tl.constexpr,
    BK: tl.constexpr, STEPS: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Grid (T / BT, K / (BK * STEPS)): part [splits, T, columns] of fn x, squares [splits, T] of
    sum x^2."""
    COLUMNS: tl.constexpr = 2 * MP * MP
    token = tl.program_id(0) * BT + tl.arange(0, BT)
    split = tl.program_id(1)
    column = tl.arange(0, COLUMNS)
    i = (column - MP * MP) // MP
    j = column % MP
    square = column >= MP * MP
    row = tl.where(square, 2 * M + i * M + j, tl.where(column < MP, column, M + column - MP))
    valid = tl.where(square, (i < M) & (j < M), (j < M) & (column < 2 * MP)) & (row < ROWS)
    acc = tl.zeros((BT, COLUMNS), tl.float32)
    total = tl.zeros((BT,), tl.float32)
    for step in range(STEPS):
        k = (split * STEPS + step) * BK + tl.arange(0, BK)
        b_x = tl.load(x + token.to(tl.int64)[:, None] * stride_x + k[None, :],
                      mask=(token < tokens)[:, None] & (k < K)[None, :], other=0.0)  # fmt: skip
        b_fn = tl.load(fn + row[None, :] * stride_fn + k[:, None],
                       mask=valid[None, :] & (k < K)[:, None], other=0.0)  # fmt: skip
        acc = tl.dot(b_x, b_fn, acc, input_precision="ieee") if EXACT else dot_fp32(b_x, b_fn, acc)
        wide = b_x.to(tl.float32)
        total += tl.sum(wide * wide, axis=1)
    at = split.to(tl.int64) * tokens + token
    tl.store(part + at[:, None] * COLUMNS + column[None, :], acc, mask=(token < tokens)[:, None])
    tl.store(squares + at, total, mask=token < tokens)


@triton.jit
def mix_kernel(
    x, part, squares, base, scale, y, post, mix, stride_x, stride_y, tokens, eps, norm_eps,
    magnitude,
    H: tl.constexpr, BH: tl.constexpr, M: tl.constexpr, MP: tl.constexpr, SPLITS: tl.constexpr,
    SP: tl.constexpr, VARIANT: tl.constexpr, ITERATIONS: tl.constexpr,
):  # fmt: skip
    """Grid (T, H / BH): y, and by the first program of a token post and mix."""
    token = tl.program_id(0).to(tl.int64)
    COLUMNS: tl.constexpr = 2 * MP * MP
    split = tl.arange(0, SP)
    at = split.to(tl.int64) * tokens + token
    exists = split < SPLITS
    column = tl.arange(0, COLUMNS)
    sums = tl.load(part + at[:, None] * COLUMNS + column[None, :], mask=exists[:, None], other=0.0)
    total = tl.sum(tl.load(squares + at, mask=exists, other=0.0), axis=0)
    u = tl.sum(sums, axis=0) * tl.rsqrt(total / (M * H) + norm_eps)
    halves = tl.reshape(u, (2, MP * MP))
    half = tl.arange(0, 2)[:, None]
    small = tl.reshape(tl.sum(tl.where(half == 0, halves, 0.0), axis=0), (MP, MP))
    o_m = tl.arange(0, MP)
    here = o_m < M
    read = tl.sum(tl.where(o_m[:, None] == 0, small, 0.0), axis=0)
    read = read * tl.load(scale) + tl.load(base + o_m, mask=here, other=0.0)
    pre = tl.where(here, sigmoid(read) + eps, 0.0)

    channel = tl.program_id(1) * BH + tl.arange(0, BH)
    mask = channel < H
    b_x = tl.load(x + token * stride_x + o_m[:, None] * H + channel[None, :],
                  mask=here[:, None] & mask[None, :], other=0.0).to(tl.float32)  # fmt: skip
    out = tl.sum(b_x * pre[:, None], axis=0)
    tl.store(y + token * stride_y + channel, out.to(y.dtype.element_ty), mask=mask)

    first = tl.program_id(1) == 0
    if VARIANT != "head":
        write = tl.sum(tl.where(o_m[:, None] == 1, small, 0.0), axis=0)
        write = write * tl.load(scale + 1) + tl.load(base + M + o_m, mask=here, other=0.0)
        write = magnitude * sigmoid(write)
        if VARIANT == "identity":
            write += eps
        tl.store(post + token * M + o_m, write, mask=here & first)
    if VARIANT == "sinkhorn":
        pair = here[:, None] & here[None, :]
        number = o_m[:, None] * M + o_m[None, :]
        square = tl.reshape(tl.sum(tl.where(half == 1, halves, 0.0), axis=0), (MP, MP))
        square = square * tl.load(scale + 2) + tl.load(base + 2 * M + number, mask=pair, other=0.0)
        square = tl.where(pair, square, -1e30)
        square = tl.exp(square - tl.max(square, axis=1)[:, None])
        square = tl.where(pair, square / tl.sum(square, axis=1)[:, None] + eps, 0.0)
        square = square / (tl.sum(square, axis=0) + eps)[None, :]
        for _ in range(ITERATIONS - 1):
            square = square / (tl.sum(square, axis=1) + eps)[:, None]
            square = square / (tl.sum(square, axis=0) + eps)[None, :]
        tl.store(mix + token * M * M + number, square, mask=pair & first)


def hyper_connection(
    x: torch.Tensor,
    fn: torch.Tensor,
    base: torch.Tensor,
    scale: torch.Tensor,
    y: torch.Tensor,
    post: torch.Tensor | None = None,
    mix: torch.Tensor | None = None,
    *,
    num_streams: int,
    variant: str,
    eps: float,
    norm_eps: float,
    iterations: int = 0,
    magnitude: float = 2.0,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write y, post and mix; see reference.py. Two launches. `workspace` (uint8,
    `launch.workspace_bytes`) holds the scratch, without it scratch is allocated. Raises ValueError
    for a wrong shape or variant."""
    rows, width = x.shape
    launch = read_launch(capability(x), num_tokens=rows, width=width, num_streams=num_streams)
    run(
        x, fn, base, scale, y, post, mix, num_streams=num_streams, variant=variant, eps=eps,
        norm_eps=norm_eps, iterations=iterations, magnitude=magnitude, workspace=workspace,
        launch=launch,
    )  # fmt: skip


def run(
    x: torch.Tensor, fn: torch.Tensor, base: torch.Tensor, scale: torch.Tensor, y: torch.Tensor,
    post: torch.Tensor | None, mix: torch.Tensor | None, *, num_streams: int, variant: str,
    eps: float, norm_eps: float, iterations: int, magnitude: float,
    workspace: torch.Tensor | None, launch: ReadLaunch,
) -> None:  # fmt: skip
    """`hyper_connection` by a given launch."""
    (rows, width), m = x.shape, num_streams
    hidden = width // m
    check_choice("variant", variant, VARIANTS)
    check_shape("fn", fn, "rows, m*H", (fn.shape[0], m * hidden))
    check_shape("y", y, "T, H", (rows, hidden))
    for name, tensor, size in (("post", post, m), ("mix", mix, m * m)):
        if tensor is not None:
            check_shape(name, tensor, "T, m or m*m", (rows, size))
    if rows == 0:
        return
    part = cut(launch.shapes(rows, m), workspace, x.device)
    padded = int(triton.next_power_of_2(m))
    project_kernel[(triton.cdiv(rows, launch.block_tokens), launch.splits)](
        x, fn, part["part"], part["squares"], x.stride(0), fn.stride(0), rows,
        K=width, M=m, MP=padded, ROWS=fn.shape[0], BT=launch.block_tokens, BK=launch.block_k,
        STEPS=launch.steps, EXACT=x.dtype == torch.float32, num_warps=launch.num_warps,
        num_stages=launch.num_stages,
    )  # fmt: skip
    mix_kernel[(rows, triton.cdiv(hidden, launch.block_hidden))](
        x, part["part"], part["squares"], base, scale, y,
        y if post is None else post, y if mix is None else mix,  # never written where absent
        x.stride(0), y.stride(0), rows, eps, norm_eps, magnitude, H=hidden,
        BH=launch.block_hidden, M=m, MP=padded, SPLITS=launch.splits,
        SP=triton.next_power_of_2(launch.splits), VARIANT=variant, ITERATIONS=iterations,
        num_warps=4,
    )  # fmt: skip
