"""Definition of the gated RMS norm (Kimi Linear with sigmoid, Qwen3-Next with SiLU)."""

import torch
import torch.nn.functional as F

from day0_kernels.common.plain import rms, wide


def gated_rmsnorm(
    x: torch.Tensor,
    gate: torch.Tensor,
    weight: torch.Tensor,
    y: torch.Tensor,
    *,
    eps: float,
    activation: str,
) -> None:
    """Write `y` [T, n*d]: RMS norm of x over each head of d = len(weight), weight, act(gate).

    x, gate [T, n*d], weight [d]; norm before gate; computed in fp32 (fp64 if x is fp64).
    """
    dtype = wide(x)
    act = {"sigmoid": torch.sigmoid, "silu": F.silu}[activation]
    heads = x.to(dtype).view(x.shape[0], -1, weight.shape[0])  # [T, n, d]
    out = rms(heads, eps) * weight.to(dtype)
    y.copy_((out.reshape(x.shape) * act(gate.to(dtype))).to(y.dtype))
