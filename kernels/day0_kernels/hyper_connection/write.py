"""Writing of hyper-connections. Letters: T tokens, H channels, BH of a program, M streams."""

import torch
import triton
import triton.language as tl

from day0_kernels.common.arguments import check_shape
from day0_kernels.hyper_connection.launch import write_launch


@triton.jit
def write_kernel(
    x, update, post, mix, y, stride_x, stride_update, stride_y,
    H: tl.constexpr, BH: tl.constexpr, M: tl.constexpr, MIX: tl.constexpr,
):  # fmt: skip
    """Grid (T, H / BH). Streams are held one beside the other, so that y may be x."""
    token = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BH + tl.arange(0, BH)
    mask = channel < H
    held = ()
    for i in tl.static_range(0, M):
        place = x + token * stride_x + i * H + channel
        held = held + (tl.load(place, mask=mask, other=0.0).to(tl.float32),)
    b_u = tl.load(update + token * stride_update + channel, mask=mask, other=0.0).to(tl.float32)
    for j in tl.static_range(0, M):
        out = b_u * tl.load(post + token * M + j)
        if MIX:
            for i in tl.static_range(0, M):
                out += held[i] * tl.load(mix + token * M * M + i * M + j)
        else:
            out += held[j]
        place = y + token * stride_y + j * H + channel
        tl.store(place, out.to(y.dtype.element_ty), mask=mask)


def hyper_write(
    x: torch.Tensor,
    update: torch.Tensor,
    post: torch.Tensor,
    y: torch.Tensor,
    mix: torch.Tensor | None = None,
    *,
    num_streams: int,
) -> None:
    """Write y [T, m*H]; see reference.py. y may be x; allocates nothing. Raises ValueError for a
    wrong shape."""
    rows, width = x.shape
    hidden = width // num_streams
    check_shape("update", update, "T, H", (rows, hidden))
    check_shape("post", post, "T, m", (rows, num_streams))
    check_shape("y", y, "T, m*H", (rows, width))
    if mix is not None:
        check_shape("mix", mix, "T, m*m", (rows, num_streams**2))
    if rows == 0:
        return
    block, num_warps = write_launch(rows, hidden)
    write_kernel[(rows, triton.cdiv(hidden, block))](
        x, update, post, post if mix is None else mix, y, x.stride(0), update.stride(0),
        y.stride(0), H=hidden, BH=block, M=num_streams, MIX=mix is not None, num_warps=num_warps,
    )  # fmt: skip
