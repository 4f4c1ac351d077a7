"""Definitions of hyper-connections: m residual streams, read and written by small matrices.

Streams lie side by side, x [T, m*H]. Sources: manifold hyper-connections arXiv 2512.24880 and
transformers 5.24 `deepseek_v4`, `glm5_next`, `hy_v4`; the gated kind `qwen4_exp`.
"""

import torch
import torch.nn.functional as F

from day0_kernels.common.plain import rms, wide


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
    """Write y [T, H] = sum_j pre_j x_j, post [T, m] and mix [T, m*m] ([from i, to j]).

    u = fn RMS(x), fn [rows, m*H], its rows [pre m | post m | mix m*m], each part times its one of
    `scale` plus its rows of `base`. pre = sigmoid(u) + eps. "sinkhorn": post = magnitude *
    sigmoid(u); mix = softmax over the last dim + eps, columns divided by their sum (over i) + eps,
    then iterations - 1 times rows and columns. "identity": post = magnitude * sigmoid(u) + eps, no
    mix. "head": y only. `workspace` is not used here.
    """
    dtype, m = wide(x), num_streams
    flat = x.to(dtype)
    u = rms(flat, norm_eps) @ fn.to(dtype).t()  # [T, rows]
    scale, base = scale.to(dtype), base.to(dtype)
    pre = torch.sigmoid(u[:, :m] * scale[0] + base[:m]) + eps  # [T, m]
    y.copy_((pre.unsqueeze(-1) * flat.view(-1, m, flat.shape[-1] // m)).sum(1))
    if post is None:
        return
    write = magnitude * torch.sigmoid(u[:, m : 2 * m] * scale[1] + base[m : 2 * m])
    post.copy_(write + eps if variant == "identity" else write)
    if mix is None:
        return
    square = (u[:, 2 * m :] * scale[2] + base[2 * m :]).view(-1, m, m).softmax(-1) + eps
    square = square / (square.sum(-2, keepdim=True) + eps)
    for _ in range(iterations - 1):
        square = square / (square.sum(-1, keepdim=True) + eps)
        square = square / (square.sum(-2, keepdim=True) + eps)
    mix.copy_(square.flatten(1))


def hyper_write(
    x: torch.Tensor,
    update: torch.Tensor,
    post: torch.Tensor,
    y: torch.Tensor,
    mix: torch.Tensor | None = None,
    *,
    num_streams: int,
) -> None:
    """y [T, m*H]: stream j becomes post_j * update + sum_i mix_ij x_i (no mix: + x_j).

    x [T, m*H], update [T, H], post [T, m], mix [T, m*m].
    """
    dtype, m = wide(x), num_streams
    streams = x.to(dtype).view(x.shape[0], m, -1)  # [T, m, H]
    if mix is not None:
        matrix = mix.to(dtype).view(-1, m, m)
        streams = torch.einsum("tij,tih->tjh", matrix, streams)
    written = post.to(dtype).unsqueeze(-1) * update.to(dtype).unsqueeze(1)  # [T, m, H]
    y.copy_((streams + written).flatten(1))


def hyper_gate(
    x: torch.Tensor,
    norm: torch.Tensor,
    down: torch.Tensor,
    up: torch.Tensor,
    y: torch.Tensor,
    inject: torch.Tensor | None = None,
    post: torch.Tensor | None = None,
    *,
    num_streams: int,
    eps: float,
    zero_centered: bool = False,
) -> None:
    """y [T, H] = mean_j sigmoid(up silu(down n / m))_j n_j; post [T, m] = 2 sigmoid(inject n / m).

    n = RMS of each stream times its slice of norm [m*H]; down [r, m*H], up [m*H, r],
    inject [m, m*H].
    """
    dtype, m = wide(x), num_streams
    rows, width = x.shape
    normed = rms(x.to(dtype).view(rows, m, width // m), eps).flatten(1)  # [T, m*H]
    normed = normed * (1 + norm.to(dtype) if zero_centered else norm.to(dtype))
    low = F.silu(normed @ down.to(dtype).t() / m)  # [T, r]
    weights = torch.sigmoid(low @ up.to(dtype).t())  # [T, m*H]
    y.copy_((weights * normed).view(rows, m, -1).mean(1))
    if inject is not None and post is not None:
        post.copy_(2 * torch.sigmoid(normed @ inject.to(dtype).t() / m))
