"""How the FP8 product is launched: a pure function of the shape, tuned offline.

Tuned on one NVIDIA H200, 2026-11-30; other chips get the same figures.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fp8GemmLaunch:
    """Tile and warps. `swap`: the weight is the left operand, for few rows.

    `group` row tiles share a column of weight tiles while it is in the L2 cache. `programs` > 0:
    that many take the tiles in turn, and their warps divide the work (common/warps.py); a
    multiplying thread has `registers`.
    """

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    swap: bool = False
    group: int = 8
    programs: int = 0
    registers: int = 0


def fp8_gemm_launch(*, rows: int, outputs: int, divisible: bool = False) -> Fp8GemmLaunch:
    """Launch for `rows` x K times K x `outputs`; `divisible`: the warps can divide the work."""
    if divisible and -(-rows // 128) * -(-outputs // 256) >= 132:
        return Fp8GemmLaunch(
            block_m=128, block_n=256, num_warps=4, num_stages=4, programs=132, registers=240
        )
    if rows <= 32:
        block = 16 if rows <= 16 else 32
        return Fp8GemmLaunch(block_m=block, block_n=64, num_warps=4, num_stages=5, swap=True)
    if rows <= 128:
        return Fp8GemmLaunch(block_m=64, block_n=128, num_warps=4, num_stages=4)
    return Fp8GemmLaunch(block_m=128, block_n=128, num_warps=8, num_stages=4)
