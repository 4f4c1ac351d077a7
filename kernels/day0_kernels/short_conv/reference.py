"""Definition of the short causal depthwise convolution (Kimi Linear, Qwen3-Next, LFM2, Mamba).

T tokens of all sequences packed, C channels, K taps, N sequences; fp32, or fp64 if x is fp64.
"""

import torch
import torch.nn.functional as F

from day0_kernels.common.plain import borders, carried, wide


def short_conv_prefill(
    x: torch.Tensor,
    weight: torch.Tensor,
    tail: torch.Tensor,
    y: torch.Tensor,
    cu_seqlens: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    activation: str,
) -> None:
    """Write `y` [T, C] and update `tail` [slots, K-1, C] in place (oldest row first).

    x [T, C], weight [C, 1, K]; cu_seqlens [N+1]; slot, start [N]. y_t is the sum of
    weight[K-1-j] * x_{t-j}, then `activation` ("silu" or "none"). Before the first token stand
    the rows of the slot, or zeros where start is 0; an empty sequence leaves its slot alone.
    """
    short_conv(x, weight, tail, y, cu_seqlens, slot, start, activation=activation)


def short_conv_decode(
    x: torch.Tensor,
    weight: torch.Tensor,
    tail: torch.Tensor,
    y: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    activation: str,
) -> None:
    """One token per sequence (T = N): as `short_conv_prefill` with every length 1."""
    bounds = torch.arange(x.shape[0] + 1)
    short_conv_prefill(x, weight, tail, y, bounds, slot, start, activation=activation)


def short_conv(
    x: torch.Tensor,
    weight: torch.Tensor,
    tail: torch.Tensor,
    y: torch.Tensor,
    cu_seqlens: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    activation: str,
    dilation: int = 1,
) -> None:
    """The general form: as `short_conv_prefill`, with a bias [C] and taps `dilation` tokens apart.

    y_t is the sum of weight[K-1-j] * x_{t - j*dilation}; tail [slots, (K-1)*dilation, C].
    """
    dtype = wide(x)
    channels, width = weight.shape[0], weight.shape[-1]
    taps = weight.view(channels, width).to(dtype)  # [C, K]
    for index, (first, last) in enumerate(borders(cu_seqlens)):
        if first == last:
            continue
        at = int(slot[index])
        before = carried(tail[at], int(start[index]), dtype)  # [(K-1)*dilation, C]
        rows = torch.cat((before, x[first:last].to(dtype)))
        length = last - first
        out = sum(rows[j * dilation : j * dilation + length] * taps[:, j] for j in range(width))
        if bias is not None:
            out = out + bias.to(dtype)
        y[first:last] = (F.silu(out) if activation == "silu" else out).to(y.dtype)
        tail[at] = rows[length:].to(tail.dtype)
