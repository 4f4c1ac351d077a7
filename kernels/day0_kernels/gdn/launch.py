"""How the gated delta net's kernels are launched: pure tables over shape, tuned offline."""

from dataclasses import asdict, dataclass

from day0_kernels.common.recurrence import DecodeLaunch
from day0_kernels.common.windows import NUM_MULTIPROCESSORS, ScanLaunch, Sizes, scan_launch


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillLaunch(ScanLaunch):
    """`group`: value heads of one key head that share a program of the chunk kernel.

    `chunk_registers` limits that kernel's registers, for more programs at a time (None: no limit).
    """

    group: int
    chunk_registers: int | None


def prefill_launch(sizes: Sizes) -> PrefillLaunch:
    """Launch of a prefill of `sizes`."""
    return PrefillLaunch(**asdict(scan_launch(sizes)), group=1, chunk_registers=None)


def decode_launch(*, num_programs: int, value_dim: int) -> DecodeLaunch:
    """Launch of decode and verify; `num_programs` is sequences times value heads."""
    if num_programs * value_dim <= 64 * NUM_MULTIPROCESSORS:
        return DecodeLaunch(block_v=min(16, value_dim), num_warps=1)
    return DecodeLaunch(block_v=min(64, value_dim), num_warps=4)
