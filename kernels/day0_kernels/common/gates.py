"""Decay gates of the delta rules, fp32, as powers of two."""

import triton
import triton.language as tl

from day0_kernels.common.activations import LOG2_E, sigmoid

# A gate where no token is: both forms turn it into a retention of exactly 1.
NO_TOKEN = tl.constexpr(-60000.0)


@triton.jit
def log1p(x):
    """log(1 + x) for x >= 0, exact to fp32 where 1 + x rounds (libdevice has no interpreter)."""
    w = 1.0 + x
    return tl.where(w == 1.0, x, tl.log(w) * (x / tl.where(w == 1.0, 1.0, w - 1.0)))


@triton.jit
def log2_decay(f, rate, lower_bound, BOUNDED: tl.constexpr):
    """Base-2 log of the retention of f = gate + dt_bias, at most 0; `rate` = exp(a_log)."""
    if BOUNDED:
        g = sigmoid(rate * f) * (lower_bound * LOG2_E)
    else:
        soft = tl.where(f > 20.0, f, log1p(tl.exp2(tl.minimum(f, 20.0) * LOG2_E)))
        g = soft * (rate * -LOG2_E)
    return g
