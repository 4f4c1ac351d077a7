"""Activation functions of the definitions, by the names that the registry's attributes use.

Sources: transformers' modules; swigluoai from its `gpt_oss`, SiTU from Kimi-K3's published kernels.
"""

import torch
import torch.nn.functional as F

FUNCTIONS = {
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
    "softplus": F.softplus,
    "none": lambda x: x,
}
GATED = ("silu", "gelu", "gelu_tanh", "relu2", "relu", "swigluoai", "situ")


def gated(
    gate: torch.Tensor,
    up: torch.Tensor,
    function: str,
    limit: float | None,
    alpha: float | None,
    beta: float | None,
    linear_beta: float | None,
) -> torch.Tensor:
    """function(gate) * up, after the clamps gate <= limit and |up| <= limit; inputs widened.

    ValueError for a function that is not one of GATED, or without its constant.
    """
    if limit is not None:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    if function == "swigluoai":
        if alpha is None:
            raise ValueError("swigluoai needs alpha")
        return (up + 1) * gate * torch.sigmoid(alpha * gate)
    if function == "situ":
        if beta is None:
            raise ValueError("situ needs beta")
        if linear_beta is not None:
            up = linear_beta * torch.tanh(up / linear_beta)
        return beta * torch.tanh(gate / beta) * torch.sigmoid(gate) * up
    if function not in GATED:
        raise ValueError(f"function must be one of {', '.join(GATED)}, got {function!r}")
    return FUNCTIONS[function](gate) * up
