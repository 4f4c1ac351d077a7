"""Launch table of the attention over pages."""

from dataclasses import dataclass

import triton

NUM_PROCESSORS = 132
NARROW_WINDOW = 1024  # below it, a tile of 128 rows reads far more than its rows see


@dataclass(frozen=True, slots=True, kw_only=True)
class AttendLaunch:
    """`block_rows` of a sequence by `block_heads` of a key head against steps of `block_entries`;
    `splits` of a tile's entries."""

    block_rows: int
    block_heads: int
    block_entries: int
    splits: int
    num_warps: int
    num_stages: int


def attend_launch(
    capability: tuple[int, int], *, num_rows: int, num_sequences: int, num_heads: int,
    num_kv_heads: int, channels: int, most_entries: int, window: int = 0, itemsize: int = 2,
    fp8: bool = False, selected: bool = False,
) -> AttendLaunch:  # fmt: skip
    """Guess of 2026-12-01 from the machine code, before any run: none spills. `channels` of a
    head, keys or values, whichever are more; `most_entries` that a row can see, by the width of
    the page table, the window or the selection."""
    share = num_heads // num_kv_heads
    heads = triton.next_power_of_2(share)
    wide = channels > 128
    mean = num_rows // max(num_sequences, 1)
    if itemsize == 4:
        # no matrix units: larger tiles spill
        heads = min(max(heads, 16) if selected or mean <= 1 else heads, 16)
        tile = (1 if selected or mean <= 1 else 16 // heads, heads, 16, 4, 1)
    elif selected or mean <= 1:
        # heads fill the tile, up to the 16 rows of the smaller matrix instruction
        heads = min(max(heads, 16), 32 if wide else 64)
        tile = (1, heads, 32 if wide and fp8 else 64, 4, 3 if wide else 5)
    elif mean < 32:
        heads = min(heads, 16)
        tile = (64 // heads, heads, 32, 8, 3) if wide else (64 // heads, heads, 64, 4, 3)
    elif wide:
        tile = (64 if fp8 else 128, 1, 32, 8, 3)
    elif 0 < window < NARROW_WINDOW:
        tile = (64, 1, 64, 4, 3)
    else:
        tile = (128, 1, 64, 8, 3)
    block_rows, block_heads, block_entries, num_warps, num_stages = tile
    tiles = num_rows if block_rows == 1 else num_rows // block_rows + num_sequences
    programs = max(tiles * num_kv_heads * triton.cdiv(share, block_heads), 1)
    # a split of less than four steps does not pay for its merge
    most = max(triton.cdiv(most_entries, 4 * block_entries), 1)
    splits = min(max(4 * NUM_PROCESSORS // programs, 1), most, 64)
    # a power of two: few kernels to compile for the widths that a table takes
    splits = 1 << (splits.bit_length() - 1)
    return AttendLaunch(
        block_rows=block_rows, block_heads=block_heads, block_entries=block_entries,
        splits=splits, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
