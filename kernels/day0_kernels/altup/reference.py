"""Definitions of alternating updates (arXiv 2301.13310; transformers 5.24 `gemma3n`). T rows, m
streams of H channels side by side, computed in fp32, or in fp64 if x is."""

import torch

from day0_kernels.common.plain import rms, wide

FLOOR = 1e-5  # of a projection's mean square


def _routed(
    active: torch.Tensor, norm: torch.Tensor, router: torch.Tensor, eps: float
) -> torch.Tensor:
    """[T, m]: tanh of the router over the normed row, divided by H."""
    normed = rms(active, eps) * norm.to(active.dtype) / active.shape[-1]
    return torch.tanh(normed @ router.to(active.dtype).T)


def _at_magnitude(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """x with the root mean square of `like`, along the last dim."""
    target = like.square().mean(-1, keepdim=True).sqrt()
    return x * target / x.square().mean(-1, keepdim=True).clamp(min=FLOOR).sqrt()


def altup_expand(x: torch.Tensor, projections: torch.Tensor, y: torch.Tensor) -> None:
    """y [T, m*H]: x [T, H], then its projections [m-1, H, H] at its magnitude."""
    first = x.to(wide(x))
    others = [_at_magnitude(first @ matrix.to(first.dtype).T, first) for matrix in projections]
    y.copy_(torch.cat([first, *others], dim=-1))


def altup_merge(
    x: torch.Tensor, projections: torch.Tensor, y: torch.Tensor, *, num_streams: int
) -> None:
    """y [T, H]: the mean of x's first stream and the projections of the others at its magnitude."""
    first, *others = x.to(wide(x)).chunk(num_streams, dim=-1)
    back = [
        _at_magnitude(stream @ matrix.to(first.dtype).T, first)
        for stream, matrix in zip(others, projections, strict=True)
    ]
    y.copy_(torch.stack([first, *back]).mean(0))


def altup_predict(
    x: torch.Tensor,
    norm: torch.Tensor,
    router: torch.Tensor,
    coefficients: torch.Tensor,
    y: torch.Tensor,
    streams: torch.Tensor,
    *,
    num_streams: int,
    active: int = 0,
    eps: float,
) -> None:
    """`streams` [T, m*H] the predictions, `y` [T, H] the active one of them. norm [H], router
    [m, H], coefficients [m*m, m]."""
    parts = x.to(wide(x)).view(x.shape[0], num_streams, -1)  # [T, m, H]
    routed = _routed(parts[:, active], norm, router, eps)
    mixing = (routed @ coefficients.to(parts.dtype).T).view(-1, num_streams, num_streams)
    predicted = mixing @ parts + parts
    streams.copy_(predicted.flatten(1))
    y.copy_(predicted[:, active])


def altup_correct(
    x: torch.Tensor,
    update: torch.Tensor,
    norm: torch.Tensor,
    router: torch.Tensor,
    coefficients: torch.Tensor,
    y: torch.Tensor,
    streams: torch.Tensor,
    *,
    num_streams: int,
    active: int = 0,
    eps: float,
) -> None:
    """`streams` [T, m*H] the corrected predictions `x`, `y` [T, H] the active one of them.
    `update` [T, H] is what the layer made of it; norm [H], router [m, H], coefficients [m, m]."""
    parts = x.to(wide(x)).view(x.shape[0], num_streams, -1)  # [T, m, H]
    activated = update.to(parts.dtype)
    factors = _routed(activated, norm, router, eps) @ coefficients.to(parts.dtype).T + 1  # [T, m]
    innovation = (activated - parts[:, active]).unsqueeze(1)  # [T, 1, H]
    corrected = parts + factors.unsqueeze(-1) * innovation
    streams.copy_(corrected.flatten(1))
    y.copy_(corrected[:, active])
