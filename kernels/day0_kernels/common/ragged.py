"""Tiles of a ragged batch without a prefix sum: jit helpers over cu_seqlens.

Sequence s gets the tile slots from cu[s] // BT + s on. Those of different sequences never meet,
T // BT + N + 1 slots are always enough, and no host needs to know a length.
"""

import triton
import triton.language as tl


@triton.jit
def find_sequence(slot, cu_seqlens, num_sequences, BT: tl.constexpr):
    """The sequence whose tile slots hold `slot`."""
    low = 0
    high = num_sequences
    while high - low > 1:
        middle = (low + high) // 2
        begin = tl.load(cu_seqlens + middle).to(tl.int64) // BT + middle
        if begin <= slot:
            low = middle
        else:
            high = middle
    return low


@triton.jit
def locate(slot, cu_seqlens, num_sequences, BT: tl.constexpr):
    """(sequence, its begin and end, first token of tile `slot`, which may lie past the end)."""
    i_s = find_sequence(slot, cu_seqlens, num_sequences, BT)
    begin = tl.load(cu_seqlens + i_s).to(tl.int64)
    end = tl.load(cu_seqlens + i_s + 1).to(tl.int64)
    return i_s, begin, end, begin + (slot - begin // BT - i_s) * BT
