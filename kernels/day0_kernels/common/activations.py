"""Activations that several ops share, fp32; exp2 and rsqrt compile to one instruction each."""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def sigmoid(x):
    r = tl.rsqrt(1.0 + tl.exp2(x * -LOG2_E))
    return r * r


@triton.jit
def tanh(x):
    return 2.0 * sigmoid(2.0 * x) - 1.0


@triton.jit
def activate(
    g, u, limit, alpha, beta, linear_beta,
    FUNCTION: tl.constexpr, HAS_LIMIT: tl.constexpr, HAS_LINEAR: tl.constexpr,
):  # fmt: skip
    """function(g) * u with the clamps; the definition is `gated` in common/functions.py."""
    if HAS_LIMIT:
        g = tl.minimum(g, limit)
        u = tl.minimum(tl.maximum(u, -limit), limit)
    if FUNCTION == "silu":
        return g * sigmoid(g) * u
    elif FUNCTION == "gelu":
        return 0.5 * g * (1.0 + tl.erf(g * 0.7071067811865476)) * u
    elif FUNCTION == "gelu_tanh":
        return 0.5 * g * (1.0 + tanh(0.7978845608028654 * (g + 0.044715 * g * g * g))) * u
    elif FUNCTION == "relu2":
        r = tl.maximum(g, 0.0)
        return r * r * u
    elif FUNCTION == "relu":
        return tl.maximum(g, 0.0) * u
    elif FUNCTION == "swigluoai":
        return (u + 1.0) * g * sigmoid(alpha * g)
    else:
        if HAS_LINEAR:
            u = linear_beta * tanh(u / linear_beta)
        return beta * tanh(g / beta) * sigmoid(g) * u
