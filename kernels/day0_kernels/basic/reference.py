"""Definitions of the small glue ops. Values are [rows, channels]; outputs are written in place.

Sources: the transformers modules of the models that use them; SiTU from Kimi-K3's published
kernels; `floor_log` from Llama 4, `ssmax` from arXiv 2501.19399.
"""

import torch

from day0_kernels.common.functions import FUNCTIONS, gated
from day0_kernels.common.plain import borders, rms, wide
from day0_kernels.quant.reference import quant_tile


def activation(x: torch.Tensor, y: torch.Tensor, *, function: str) -> None:
    """y = function(x), elementwise."""
    y.copy_(FUNCTIONS[function](x.to(wide(x))))


def add(
    a: torch.Tensor,
    b: torch.Tensor,
    y: torch.Tensor,
    *,
    scale_a: float = 1.0,
    scale_b: float = 1.0,
) -> None:
    """y = scale_a * a + scale_b * b."""
    dtype = wide(a)
    y.copy_(scale_a * a.to(dtype) + scale_b * b.to(dtype))


def channel_scale(x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor) -> None:
    """y [T, C] = x * weight; weight [C] or [1]."""
    dtype = wide(x)
    y.copy_(x.to(dtype) * weight.to(dtype))


def clamp(x: torch.Tensor, y: torch.Tensor, *, limit: float) -> None:
    """y = x within -limit and limit."""
    y.copy_(x.clamp(-limit, limit))


def concat(x: list[torch.Tensor], y: torch.Tensor) -> None:
    """y [T, sum of widths]: the values' channels side by side."""
    y.copy_(torch.cat([part.to(y.dtype) for part in x], dim=-1))


def embedding(
    ids: torch.Tensor,
    table: torch.Tensor,
    y: torch.Tensor,
    *,
    scale: float = 1.0,
    first: int | None = None,
) -> None:
    """y [T, H] = scale * table[ids]; ids [T], table [V, H]. With `first` the table holds the rows
    from that id on, and ids outside it give zeros."""
    own = ids.long() - (first or 0)
    if first is None:
        rows = table[own]
    else:
        inside = (own >= 0) & (own < table.shape[0])
        rows = table[own.where(inside, 0)].where(inside[:, None], 0)
    y.copy_(rows.to(wide(table)) * scale)


def gate(
    x: torch.Tensor,
    gate: torch.Tensor,
    y: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    activation: str,
    num_heads: int = 0,
) -> None:
    """y = x * activation(gate); x [T, C], gate [T, C], or [T, num_heads]: one value a head. `bias`
    [n] is added to the gates of each of n heads."""
    dtype = wide(x)
    logits = gate.to(dtype)
    if bias is not None:
        logits = logits + bias.to(dtype).repeat_interleave(logits.shape[-1] // len(bias))
    factor = FUNCTIONS[activation](logits)
    if num_heads:
        factor = factor.repeat_interleave(x.shape[-1] // num_heads, dim=-1)  # [T, C]
    y.copy_(x.to(dtype) * factor)


def glu(
    gate: torch.Tensor,
    up: torch.Tensor,
    y: torch.Tensor,
    *,
    function: str,
    limit: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    linear_beta: float | None = None,
) -> None:
    """y = function(gate) * up; `limit` clamps gate from above and up on both sides, before."""
    dtype = wide(gate)
    y.copy_(gated(gate.to(dtype), up.to(dtype), function, limit, alpha, beta, linear_beta))


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
    """`quant_tile` of `glu`, which is not rounded in between: `q` [T, C] FP8, `q_scale` fp32
    [T, ceil(C/128)]."""
    dtype = wide(gate)
    quant_tile(
        gated(gate.to(dtype), up.to(dtype), function, limit, alpha, beta, linear_beta), q, q_scale
    )


def layernorm(
    x: torch.Tensor,
    y: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    *,
    eps: float,
    zero_centered: bool = False,
    group: int = 0,
) -> None:
    """y [T, C] = (x - mean) * rsqrt(var + eps) * weight + bias, over each `group` channels (0: the
    row). weight, bias [group]: the same for every group, or one value a channel; the weight
    stored as w - 1 if `zero_centered`."""
    rows, channels = x.shape
    wider = x.to(wide(x)).view(rows, channels // (group or channels), -1)
    centred = wider - wider.mean(-1, keepdim=True)
    normed = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    if weight is not None:
        factor = weight.to(normed.dtype).view(-1, normed.shape[-1])
        normed = normed * (factor + (1 if zero_centered else 0))
    if bias is not None:
        normed = normed + bias.to(normed.dtype).view(-1, normed.shape[-1])
    y.copy_(normed.view(rows, channels))


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    y: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    groups: int = 1,
) -> None:
    """y [T, out] = x W^T + bias; weight [out, in / groups], its rows g of `groups` blocks read
    the g-th block of x's channels."""
    dtype = wide(x)
    blocks = x.to(dtype).view(x.shape[0], groups, -1)  # [T, g, in/g]
    matrices = weight.to(dtype).view(groups, -1, weight.shape[-1])  # [g, out/g, in/g]
    product = torch.einsum("tgi,goi->tgo", blocks, matrices).reshape(x.shape[0], -1)  # [T, out]
    y.copy_(product if bias is None else product + bias.to(dtype))


def position_embedding(
    x: torch.Tensor,
    table: torch.Tensor,
    y: torch.Tensor,
    positions: torch.Tensor,
    *,
    offset: int = 0,
    scale: float = 1.0,
) -> None:
    """y [T, H] = x + scale * table[position + offset]; table [P, H]."""
    dtype = wide(x)
    y.copy_(x.to(dtype) + table[positions.long() + offset].to(dtype) * scale)


def local_experts(experts: torch.Tensor, y: torch.Tensor, *, first: int) -> None:
    """y = experts - first, [T, k]."""
    y.copy_(experts - first)


def lone(x: torch.Tensor, y: torch.Tensor, *, keep: bool) -> None:
    """y = x if `keep`, else zeros."""
    y.copy_(x if keep else torch.zeros_like(x))


def position_scale(
    x: torch.Tensor,
    y: torch.Tensor,
    positions: torch.Tensor,
    scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    *,
    rule: str,
    num_heads: int,
    beta: float | None = None,
    original: int = 0,
    shift: int = 0,
) -> None:
    """y: each head of x [T, n*d] times a function of the row's position.

    "ssmax": scale * ln(position + 1) + bias, both [n]. "floor_log": the same for all heads,
    1 + beta * ln(1 + floor((position + shift) / original)). "power":
    (1 + (position + 1) / original) ^ beta.
    """
    dtype = wide(x)
    at = positions.to(dtype).view(-1, 1)  # [T, 1]
    if rule == "ssmax":
        factor = torch.log(at + 1).expand(-1, num_heads)  # [T, n]
        factor = factor if scale is None else factor * scale.to(dtype)
        factor = factor if bias is None else factor + bias.to(dtype)
    elif rule == "power":
        assert beta is not None, "power has a beta"
        factor = (1 + (at + 1) / original) ** beta  # [T, 1]
    else:
        assert beta is not None, "floor_log has a beta"
        steps = torch.div(positions + shift, original, rounding_mode="floor").to(dtype).view(-1, 1)
        factor = 1 + beta * torch.log1p(steps)  # [T, 1]
    y.copy_((x.to(dtype).view(x.shape[0], num_heads, -1) * factor.unsqueeze(-1)).flatten(1))


def rmsnorm(
    x: torch.Tensor,
    y: torch.Tensor,
    weight: torch.Tensor | None = None,
    *,
    eps: float,
    group: int = 0,
    zero_centered: bool = False,
    scale: float = 1.0,
) -> None:
    """y [T, C] = x * rsqrt(mean x^2 + eps) * w * scale, the mean over each `group` channels.

    `group` 0: the whole row. weight [group]: the same for every group, or [C]: a slice for each;
    stored as w - 1 if `zero_centered`.
    """
    dtype = wide(x)
    rows, channels = x.shape
    size = group or channels
    normed = rms(x.to(dtype).view(rows, channels // size, size), eps)  # [T, groups, size]
    if weight is not None:
        factor = weight.to(dtype).view(-1, size)  # [1 or groups, size]
        normed = normed * (1 + factor if zero_centered else factor)
    y.copy_(normed.reshape(rows, channels) * scale)


def share(x: torch.Tensor, y: torch.Tensor, *, begin: int, end: int) -> None:
    """y [T, end - begin]: those channels of x."""
    y.copy_(x[:, begin:end])


def softcap(
    x: torch.Tensor, y: torch.Tensor, *, cap: float | None = None, scale: float = 1.0
) -> None:
    """y = scale * x, or cap * tanh(scale * x / cap)."""
    scaled = x.to(wide(x)) * scale
    y.copy_(scaled if cap is None else cap * torch.tanh(scaled / cap))


def sparse_threshold(x: torch.Tensor, y: torch.Tensor, *, multiplier: float) -> None:
    """y = relu(x - mean - multiplier * standard deviation) of each row (arXiv 2506.06644)."""
    wider = x.to(wide(x))
    cut = wider.mean(-1, keepdim=True) + multiplier * wider.std(-1, keepdim=True, unbiased=False)
    y.copy_((wider - cut).relu())


def streams(x: torch.Tensor, y: torch.Tensor, *, num_streams: int, rule: str) -> None:
    """Rule "copy": y [T, m*H] is x [T, H] m times, "others" with zeros in the first; "mean": y
    [T, H] the mean of x's m streams."""
    if rule in ("copy", "others"):
        y.copy_(x.repeat(1, num_streams))
        if rule == "others":
            y[:, : x.shape[-1]] = 0
    else:
        y.copy_(x.to(wide(x)).view(x.shape[0], num_streams, -1).mean(1))


def xielu(
    x: torch.Tensor,
    alpha_p: torch.Tensor,
    alpha_n: torch.Tensor,
    beta: torch.Tensor,
    eps: torch.Tensor,
    y: torch.Tensor,
) -> None:
    """y = p x^2 + b x above zero, n (expm1(min(x, eps)) - x) + b x elsewhere, with b = beta,
    p = softplus(alpha_p), n = b + softplus(alpha_n), all of one element (arXiv 2411.13010)."""
    wider = x.to(wide(x))
    slope = beta.to(wider.dtype)
    positive = torch.nn.functional.softplus(alpha_p.to(wider.dtype))
    negative = slope + torch.nn.functional.softplus(alpha_n.to(wider.dtype))
    below = torch.expm1(torch.minimum(wider, eps.to(wider.dtype))) - wider
    bent = torch.where(wider > 0, positive * wider.square(), negative * below)
    y.copy_(bent + slope * wider)


def take_rows(x: torch.Tensor, y: torch.Tensor, cu_seqlens: torch.Tensor, *, rows: str) -> None:
    """rows "R": y [N, ...] holds each sequence's last row of x [T, ...], zeros if it has none."""
    if rows != "R":
        raise ValueError(f"take_rows knows R (the last row of each sequence), got {rows!r}")
    for index, (first, last) in enumerate(borders(cu_seqlens)):
        y[index] = x[last - 1].to(y.dtype) if last > first else 0
