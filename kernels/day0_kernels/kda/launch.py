"""How the KDA kernels are launched: pure tables over shape and nothing else, tuned offline.

Tuned on one NVIDIA H200 (132 multiprocessors), 2026-11-30; other chips get the same figures.
"""

from dataclasses import asdict, dataclass

from day0_kernels.common.recurrence import DecodeLaunch
from day0_kernels.common.windows import NUM_MULTIPROCESSORS, ScanLaunch, Sizes, scan_launch


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillLaunch(ScanLaunch):
    """`diagonal`: rows of a block whose pairs are factored about its middle row."""

    diagonal: int


def diagonal_block(chunk: int, lower_bound: float | None) -> int:
    """Rows of a block whose pairs can be factored: exponents stay within 80 of its middle row."""
    per_token = 16.0 if lower_bound is None else min(-lower_bound, 16.0)
    block = 32
    while block > 2 and block // 2 * per_token > 80.0:
        block //= 2
    return min(block, chunk)


def prefill_launch(sizes: Sizes, lower_bound: float | None) -> PrefillLaunch:
    """Launch of a prefill of `sizes`; `lower_bound` None is the softplus form."""
    base = scan_launch(sizes)
    return PrefillLaunch(**asdict(base), diagonal=diagonal_block(base.chunk, lower_bound))


def decode_launch(*, num_programs: int, value_dim: int) -> DecodeLaunch:
    """Launch of decode and verify; `num_programs` is sequences times heads."""
    if num_programs * value_dim <= 64 * NUM_MULTIPROCESSORS:
        return DecodeLaunch(block_v=min(16, value_dim), num_warps=1)
    return DecodeLaunch(block_v=min(64, value_dim), num_warps=4)


def fused_launch(*, value_dim: int) -> DecodeLaunch:
    """Launch of the fused decode step: a head in one tile beats two (0.84 against 0.82 of the floor
    at 256 sequences of 48 heads), although two would double the occupancy."""
    return DecodeLaunch(block_v=value_dim, num_warps=4)
