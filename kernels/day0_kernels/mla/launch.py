"""Launch table of the absorbed attention."""

from dataclasses import dataclass

import triton

NUM_PROCESSORS = 132


@dataclass(frozen=True, slots=True, kw_only=True)
class AttendLaunch:
    """`block_heads`, `block_entries` of a program, `splits` of a row's entries."""

    block_heads: int
    block_entries: int
    splits: int
    num_warps: int
    num_stages: int


def attend_launch(
    capability: tuple[int, int], *, num_rows: int, num_heads: int, most_entries: int, itemsize: int
) -> AttendLaunch:
    """Guess of 2026-12-01, before any run. `most_entries` that a row can see: by the width of the
    page table, or the selection."""
    # the matrix unit takes 64 heads; 32 cost nearly the same, and in FP8 such a program spills
    block_heads = 16 if num_heads <= 16 or itemsize == 4 else 64
    block_entries = 16 if itemsize == 4 else 64
    programs = max(num_rows * triton.cdiv(num_heads, block_heads), 1)
    # a split of less than two steps does not pay for its merge
    most = max(triton.cdiv(most_entries, 2 * block_entries), 1)
    splits = min(max(NUM_PROCESSORS // programs, 1), most, 64)
    return AttendLaunch(
        block_heads=block_heads, block_entries=block_entries, splits=splits, num_warps=8,
        num_stages=1 if itemsize == 4 else 2,
    )  # fmt: skip
