"""How the routing kernels are launched: pure functions of the shape, tuned offline.

Tuned on one NVIDIA H200, 2026-11-30; other chips get the same figures.
"""

from dataclasses import dataclass

ALL_PAIRS_ROWS = 4096  # up to here every row compares itself with all others, in one launch
SORT_BLOCK = 512  # rows of a program of the counting sort


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteLaunch:
    """Tokens of a program and its warps."""

    block_t: int
    num_warps: int


def power_of_two(n: int) -> int:
    """The least power of two that is at least `n`."""
    return 1 << max(n - 1, 0).bit_length()


def route_launch(*, num_tokens: int, padded: int) -> RouteLaunch:
    """Launch for `num_tokens` rows of `padded` scores: a warp a token keeps maxima in a warp."""
    return RouteLaunch(block_t=1, num_warps=1)


def max_tiles(*, num_rows: int, num_experts: int, block_m: int) -> int:
    """Tiles that `num_rows` rows can need at most, however they are spread over the experts."""
    return max(min(num_rows, num_rows // block_m + num_experts), 1)


def sort_workspace_bytes(*, num_rows: int, num_experts: int) -> int:
    """Bytes of `workspace` for `moe_sort`: counts per block and expert, or none."""
    if num_rows <= ALL_PAIRS_ROWS:
        return 0
    return -(-num_rows // SORT_BLOCK) * power_of_two(num_experts + 1) * 4
