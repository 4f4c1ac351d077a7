"""Launch tables of the attention residual."""

from dataclasses import dataclass

import triton

SMALL = 264  # tokens that two programs a multiprocessor hold at once on an H200


@dataclass(frozen=True, slots=True, kw_only=True)
class MixLaunch:
    """`tile`: all sources side by side in blocks of `block` channels, else one after another."""

    tile: bool
    num_warps: int
    block: int = 0


def mix_launch(
    capability: tuple[int, int], *, num_tokens: int, channels: int, num_sources: int
) -> MixLaunch:
    """Guess of 2026-12-01, before any run."""
    if num_tokens <= SMALL:
        block = 16384 // triton.next_power_of_2(num_sources)
        block = min(block, triton.next_power_of_2(channels))
        return MixLaunch(tile=True, num_warps=16 if channels > 1024 else 4, block=block)
    return MixLaunch(tile=False, num_warps=16 if channels > 4096 else 8)
