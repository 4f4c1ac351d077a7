"""How the expert kernels are launched: pure functions of the shape, tuned offline.

Tuned on one NVIDIA H200, 2026-11-30; other chips get the same figures.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmLaunch:
    """Tile of one grouped product. `swap`: weights are the left operand, rows the right one.

    The matrix unit takes 64 rows or more on the left, but 16 on the right: with few rows per
    expert the weights go left. `programs` > 0 makes that many take the products in turn.
    `registers` > 0: the warps divide the work (common/warps.py), and a multiplying thread has that
    many; such tiles have 128 rows, `block_n` counts both halves of columns.
    """

    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    swap: bool = False
    programs: int = 0
    registers: int = 0


def block_m(*, num_rows: int, num_experts: int) -> int:
    """Rows of a tile for `num_rows` = tokens * choices spread over the experts."""
    mean = num_rows / num_experts
    if mean <= 8:
        return 16
    if mean <= 20:
        return 32
    if mean <= 48:
        return 64
    return 128


def divisible(
    *, rows: int, inputs: int, outputs: int, fp8: bool, capability: tuple[int, int]
) -> bool:
    """Whether warps that divide the work can make the product: whole steps, on Hopper.

    `outputs` 0: any number of them.
    """
    step = 128 if fp8 else 64
    return capability == (9, 0) and rows == 128 and not inputs % step and not outputs % 128


def gate_up_launch(*, rows: int, fp8: bool, exact: bool, divided: bool = False) -> GemmLaunch:
    """Launch of gate and up for tiles of `rows` rows; `exact` means fp32 inputs."""
    if exact:
        return GemmLaunch(block_n=32, block_k=32, num_warps=4, num_stages=2, swap=rows < 64)
    if divided:
        return _divided(fp8=fp8, registers=224)
    if rows <= 32:
        # the tile of FP8 is as wide as the channels that share a scale of h
        block_n = 128 if fp8 else 64
        return GemmLaunch(block_n=block_n, block_k=128, num_warps=4, num_stages=3, swap=True)
    if rows == 64:
        block_k = 128 if fp8 else 64
        return GemmLaunch(block_n=128, block_k=block_k, num_warps=4, num_stages=3)
    if fp8:
        return GemmLaunch(block_n=128, block_k=128, num_warps=8, num_stages=3, programs=132)
    return GemmLaunch(block_n=128, block_k=64, num_warps=8, num_stages=4)


def down_launch(*, rows: int, fp8: bool, exact: bool, divided: bool = False) -> GemmLaunch:
    """Launch of the second product for tiles of `rows` rows."""
    if exact:
        return GemmLaunch(block_n=32, block_k=32, num_warps=4, num_stages=2, swap=rows < 64)
    if divided:
        return _divided(fp8=fp8, registers=240)
    if rows <= 32:
        return GemmLaunch(block_n=128, block_k=128, num_warps=4, num_stages=3, swap=True)
    if rows == 64:
        block_k = 128 if fp8 else 64
        return GemmLaunch(block_n=128, block_k=block_k, num_warps=4, num_stages=3)
    if fp8:
        return GemmLaunch(block_n=64, block_k=128, num_warps=4, num_stages=3, programs=264)
    return GemmLaunch(block_n=128, block_k=64, num_warps=4, num_stages=3, programs=264)


def _divided(*, fp8: bool, registers: int) -> GemmLaunch:
    # one program a multiprocessor: 48 KB a stage, and all its registers
    return GemmLaunch(
        block_n=256, block_k=128 if fp8 else 64, num_warps=4, num_stages=4, programs=132,
        registers=registers,
    )  # fmt: skip
