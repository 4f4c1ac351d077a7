"""The glue ops that torch already does in one launch of its own, under the definitions' names.

Where the dtypes of an op's tensors differ (an fp32 router of bf16 rows) torch's conversions make
it two.
"""

import torch
import torch.nn.functional as F


def add(
    a: torch.Tensor,
    b: torch.Tensor,
    y: torch.Tensor,
    *,
    scale_a: float = 1.0,
    scale_b: float = 1.0,
) -> None:
    """y = scale_a * a + scale_b * b; torch rounds scale_a * a to a's dtype unless scale_a is 1."""
    torch.add(a if scale_a == 1.0 else a * scale_a, b, alpha=scale_b, out=y)


def concat(x: list[torch.Tensor], y: torch.Tensor) -> None:
    """y [T, sum of widths]: the values' channels side by side."""
    torch.cat(x, dim=-1, out=y)


def embedding(
    ids: torch.Tensor,
    table: torch.Tensor,
    y: torch.Tensor,
    *,
    scale: float = 1.0,
    first: int | None = None,
) -> None:
    """y [T, H] = scale * table[ids]; ids [T], table [V, H], its rows those from `first` on: ids
    outside them give zeros."""
    if first is None:
        torch.index_select(table, 0, ids, out=y)
    else:
        own = ids - first
        torch.index_select(table, 0, own.clamp(0, table.shape[0] - 1), out=y)
        y.masked_fill_(((own < 0) | (own >= table.shape[0]))[:, None], 0)
    if scale != 1.0:
        y.mul_(scale)


def local_experts(experts: torch.Tensor, y: torch.Tensor, *, first: int) -> None:
    """y = experts - first, [T, k]."""
    torch.sub(experts, first, out=y)


def lone(x: torch.Tensor, y: torch.Tensor, *, keep: bool) -> None:
    """y = x if `keep`, else zeros."""
    y.copy_(x) if keep else y.zero_()


def share(x: torch.Tensor, y: torch.Tensor, *, begin: int, end: int) -> None:
    """y [T, end - begin]: those channels of x."""
    y.copy_(x[:, begin:end])


def layernorm(
    x: torch.Tensor,
    y: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    *,
    eps: float,
) -> None:
    """y = (x - mean) * rsqrt(var + eps) * weight + bias; weight, bias [C]; fp32 inside."""
    y.copy_(F.layer_norm(x, x.shape[-1:], weight, bias, eps))


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    y: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    groups: int = 1,
) -> None:
    """y [T, out] = x W^T + bias, summed in fp32; weight [out, in / groups], its rows g of `groups`
    blocks read the g-th block of x's channels."""
    x = x.to(weight.dtype)
    if groups > 1:
        rows = x.unflatten(-1, (groups, -1)).transpose(0, 1)  # [g, T, in/g]
        product = torch.bmm(rows, weight.unflatten(0, (groups, -1)).mT)  # [g, T, out/g]
        y.copy_(product.transpose(0, 1).flatten(1))
        if bias is not None:
            y.add_(bias)
    elif y.dtype != weight.dtype:
        y.copy_(F.linear(x, weight, bias))
    elif bias is None:
        torch.mm(x, weight.mT, out=y)
    else:
        torch.addmm(bias, x, weight.mT, out=y)
