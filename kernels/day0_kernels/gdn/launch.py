"""How decode and verify of the gated delta net are launched: a table over shape, tuned offline."""

from day0_kernels.common.recurrence import DecodeLaunch
from day0_kernels.common.windows import NUM_MULTIPROCESSORS


def decode_launch(*, num_programs: int, value_dim: int) -> DecodeLaunch:
    """`num_programs` is sequences times value heads."""
    if num_programs * value_dim <= 64 * NUM_MULTIPROCESSORS:
        return DecodeLaunch(block_v=min(16, value_dim), num_warps=1)
    return DecodeLaunch(block_v=min(64, value_dim), num_warps=4)
