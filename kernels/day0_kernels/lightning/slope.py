"""The decay of a head, in the kernels: no tensor holds it."""

import triton
import triton.language as tl

from day0_kernels.common.activations import LOG2_E

# A layer's slope_scale is at most 1 + 1e-5; decays inside a chunk are ratios in fp32's range.
LARGEST_SCALE = 1.25


@triton.jit
def log2_slope(i_h, slope_scale, H: tl.constexpr):
    """Base-2 log of what one token takes from the state of head `i_h`, above 0."""
    return tl.exp2((i_h + 1).to(tl.float32) * (-8.0 / H)) * (slope_scale * LOG2_E)
